"""One-step integrators on configuration spaces."""
