"""The service registry: services and endpoints of ServiceEntries and Kubernetes Services."""
