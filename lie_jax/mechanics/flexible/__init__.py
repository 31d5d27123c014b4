"""Flexible bodies: a frame that moves, and small displacements within it by modes."""
