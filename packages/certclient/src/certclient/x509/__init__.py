"""Certificates, keys and PEM: how they are read, made, and checked before anything uses them."""
