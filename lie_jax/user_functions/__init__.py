"""Functions of users as static parts of compiled programs."""
