"""The route configurations of sidecars, and the parts that they share."""
