"""The mesh's processes: how each is called, kept running and stopped."""
