"""Beams: elements between bodies that are their nodes, sections, lines of elements, readings."""
