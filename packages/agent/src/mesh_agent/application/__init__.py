"""The application whose life the agent shares: a process that is followed, or one it starts."""
