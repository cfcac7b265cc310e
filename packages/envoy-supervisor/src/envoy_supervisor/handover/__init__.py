"""Hands listening sockets from one Envoy to the next, also when the first has died."""
