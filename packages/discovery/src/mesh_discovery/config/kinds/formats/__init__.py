"""Texts that Envoy reads as a language of its own: commands in headers and logs, expressions."""
