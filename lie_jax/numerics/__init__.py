"""Small matrices, elimination, Newton, derivative rules, checkpoints: arrays only, no mechanics."""
