"""gRPC applications that take their configuration themselves: their bootstrap, and a relay."""
