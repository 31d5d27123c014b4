"""How mechanisms are computed: coordinates, systems, readings."""
