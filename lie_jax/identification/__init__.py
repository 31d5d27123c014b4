"""Parameters from recordings, with their uncertainty."""
