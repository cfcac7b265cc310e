"""Certificates, keys and identities that are revoked, and the signed list of serial numbers."""
