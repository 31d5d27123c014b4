"""Contact between shapes of bodies, with friction."""
