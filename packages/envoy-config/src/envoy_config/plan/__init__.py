"""Where a proxy listens and what for, as data that resources are generated from."""
