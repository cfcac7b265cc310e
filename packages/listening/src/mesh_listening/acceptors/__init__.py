"""Accepting connections, and serving each by a protocol or by a gRPC server inside."""
