"""Experiments: one claim, table or figure a file, run by `python -m experiments NAME`."""
