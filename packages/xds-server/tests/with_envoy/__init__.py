"""Tests that run against a real Envoy, and against gRPC's own client."""
