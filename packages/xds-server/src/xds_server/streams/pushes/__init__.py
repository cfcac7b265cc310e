"""A push to one client: why it happens, the one under way, and what the last one brought."""
