"""The Gateway API in terms of Istio's Gateways and VirtualServices, with statuses."""
