"""The modules on disk: what was fetched, by which names it is known, and when it is removed."""
