"""The mesh's names: as plain data, compiled for lookups, and the records they are answered with."""
