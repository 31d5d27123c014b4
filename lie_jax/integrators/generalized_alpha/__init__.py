"""The Lie generalized-α method."""
