"""HTTP requests to hosts that a configuration names: which addresses, over which TLS, how much."""
