"""The effective configuration, as people are shown it."""
