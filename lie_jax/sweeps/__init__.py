"""Many runs at once, in batches, on disk."""
