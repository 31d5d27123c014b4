"""Formulations: how the equations of motion of a mechanism are written in coordinates."""
