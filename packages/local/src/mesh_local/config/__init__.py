"""The mesh file, and the addresses and replicas that follow from it."""
