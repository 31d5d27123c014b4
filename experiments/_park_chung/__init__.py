"""Parts of the experiment `park_chung`."""
