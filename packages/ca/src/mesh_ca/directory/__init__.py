"""The authority's files: made at the first start, read, and changed when a root is due."""
