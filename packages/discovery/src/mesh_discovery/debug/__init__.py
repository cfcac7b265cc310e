"""The state of connected proxies in the forms of Istio's and Envoy's debug pages."""
