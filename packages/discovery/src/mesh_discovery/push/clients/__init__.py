"""Clients as services see them, and the values that they share."""
