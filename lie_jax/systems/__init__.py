"""What a system is, and what follows from that alone."""
