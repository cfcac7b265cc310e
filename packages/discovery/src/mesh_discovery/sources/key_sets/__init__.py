"""Fetching of the key sets (JWKS) by which proxies check the tokens of requests."""
