"""What the client of one stream wants and has, and is sent next, in both dialects; no I/O."""
