"""Probes in the forms in which Kubernetes and Istio hand them over."""
