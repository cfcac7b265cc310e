"""The authority signs certificates with one key, whatever identities it is told to certify."""
