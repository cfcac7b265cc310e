"""Envoy's streams: relaying them, to one upstream stream after the other, and which one leads."""
