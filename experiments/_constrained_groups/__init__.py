"""Parts of the experiment `constrained_groups`."""
