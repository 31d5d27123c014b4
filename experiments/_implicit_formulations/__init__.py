"""Parts of the experiment `implicit_formulations`."""
