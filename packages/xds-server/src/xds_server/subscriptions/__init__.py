"""The subscriptions of one stream: what its client wants, has and is sent next; no I/O."""
