"""Routes and route configurations of Envoy, generated from VirtualServices and services."""
