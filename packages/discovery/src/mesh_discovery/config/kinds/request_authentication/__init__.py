"""RequestAuthentication: its fields, its mistakes, and the key sets (JWKS) that it names."""
