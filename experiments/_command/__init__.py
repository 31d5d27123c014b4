"""What `python -m experiments` does beyond running experiments: models from the shell."""
