"""Parts of the experiment `explicit_formulations`."""
