"""Joints: constraints between two bodies."""
