"""The listeners and route configurations of routers, as Envoy's messages."""
