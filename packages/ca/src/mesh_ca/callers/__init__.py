"""Callers prove who they are by a client certificate or a token, which is checked here."""
