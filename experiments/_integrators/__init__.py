"""Parts of the experiment `integrators`."""
