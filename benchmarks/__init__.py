"""Measurements of speed, as process CPU time on one pinned core."""
