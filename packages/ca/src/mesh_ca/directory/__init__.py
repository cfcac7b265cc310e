"""The authority's files: created at the first start, read, and changed when a root is due."""
