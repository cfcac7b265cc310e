"""Clients that speak HTTP/2 by hand, to do what no gRPC client lets itself be made to do."""
