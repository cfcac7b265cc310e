"""Clients that speak HTTP/2 by hand, to do what no gRPC client can do."""
