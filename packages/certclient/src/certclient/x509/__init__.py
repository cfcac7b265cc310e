"""Certificates, keys and PEM: how they are read, generated and checked before any use."""
