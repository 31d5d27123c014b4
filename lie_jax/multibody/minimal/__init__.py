"""Systems in joint coordinates, where joints have coordinates."""
