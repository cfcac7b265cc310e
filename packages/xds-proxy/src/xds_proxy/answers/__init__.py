"""Learning from the answers of Envoy: who is told that a response was accepted or refused."""
