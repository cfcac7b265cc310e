"""The sockets that queries come in by."""
