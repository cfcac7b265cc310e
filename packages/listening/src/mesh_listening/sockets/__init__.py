"""Listening sockets, and who is at the other end of a connection by the kernel's word."""
