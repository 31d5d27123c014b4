"""Systems in absolute coordinates, where joints are constraints."""
