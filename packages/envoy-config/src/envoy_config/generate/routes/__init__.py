"""Routes and route configurations of Envoy, made of VirtualServices and of services."""
