"""Access logs of listeners and traces of requests."""
