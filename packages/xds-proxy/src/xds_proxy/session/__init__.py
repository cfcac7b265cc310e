"""One stream of Envoy across the upstream streams that serve it: what it asked for and has."""
