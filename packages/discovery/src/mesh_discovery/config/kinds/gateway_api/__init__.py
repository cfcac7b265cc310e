"""The Kubernetes Gateway API: gateways, the routes that attach to them, grants of references."""
