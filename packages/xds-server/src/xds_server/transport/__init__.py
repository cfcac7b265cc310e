"""The server on the network: listeners, the gRPC services, single fetches, and CSDS."""
