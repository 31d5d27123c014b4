"""Commands of `python -m experiments` beyond experiments: models from the shell."""
