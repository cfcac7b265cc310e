"""Other gRPC services on Envoy's socket: calls passed to the control plane, the relay's own."""
