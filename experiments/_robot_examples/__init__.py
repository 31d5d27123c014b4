"""Robots of files below a folder: an arm, a quadruped, a biped with closed loops, a drone."""
