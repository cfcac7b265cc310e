"""Services and endpoints of the objects of a Kubernetes cluster."""
