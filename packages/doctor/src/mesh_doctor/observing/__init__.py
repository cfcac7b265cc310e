"""Looks and asks: files, servers, sockets and programs, each for a bounded time."""
