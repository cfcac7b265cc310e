"""Writing to either side of a stream, within bounds on what is not read."""
