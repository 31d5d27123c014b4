"""Parts of the experiment `local_global_maps`."""
