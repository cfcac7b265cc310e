"""Istio's gRPC service CreateCertificate, which signs for callers that are authenticated."""
