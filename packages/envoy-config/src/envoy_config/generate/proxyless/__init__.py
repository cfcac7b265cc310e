"""The resources of gRPC programs without an Envoy: only what gRPC's xDS clients accept."""
