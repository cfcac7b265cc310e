"""Learning from the answers of Envoy: what is called when a response was accepted or refused."""
