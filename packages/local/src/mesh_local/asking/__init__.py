"""A mesh that runs in another terminal: how it is found, and what it is asked."""
