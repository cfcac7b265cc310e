"""A push to one client: why it is made, the one under way, and what the last one brought."""
