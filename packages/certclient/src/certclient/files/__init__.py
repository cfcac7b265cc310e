"""Certificates in files: reads the files of other programs, and writes our own."""
