"""Where resources come from: the interface of a generator, and ready-to-use generators."""
