"""Objects, or parts of them, without effect, by the sort of object."""
