"""Kubernetes' Ingresses as Gateways and VirtualServices of Istio's."""
