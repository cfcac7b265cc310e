"""Forwards queries to upstream resolvers, and keeps their replies."""
