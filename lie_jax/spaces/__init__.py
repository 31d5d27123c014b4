"""Configuration spaces: what integrators may do with coordinates."""
