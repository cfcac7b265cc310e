"""The authority signs certificates with one key, for identities that callers have proved."""
