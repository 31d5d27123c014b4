"""Rigid-body mechanics: bodies, joints, forces, and the systems assembled from them."""
