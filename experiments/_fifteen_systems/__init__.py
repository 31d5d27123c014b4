"""Parts of the comparison on the fifteen systems."""
