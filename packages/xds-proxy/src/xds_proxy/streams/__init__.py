"""Envoy's streams: relaying them, the types that the agent consumes, and which one leads."""
