"""Filters by which proxies enforce policies on what comes in."""
