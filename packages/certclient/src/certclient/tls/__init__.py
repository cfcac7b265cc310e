"""TLS contexts and gRPC credentials that follow the certificate, and which peers they accept."""
