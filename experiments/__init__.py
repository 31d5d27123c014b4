"""Experiments: one claim, table or figure a file, run by `python -m experiments run NAME`."""

import os

# XLA's lines about the processor when it loads a program from the cache are false alarms; it reads
# this before JAX is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
