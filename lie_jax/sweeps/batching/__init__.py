"""Programs of one member evaluated for a batch of members."""
