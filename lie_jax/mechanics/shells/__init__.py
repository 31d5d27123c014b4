"""Shells: four-node elements, their laws, surfaces of them, and loads."""
