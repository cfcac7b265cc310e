"""Certificates in files: those that others renew are read, ours are written."""
