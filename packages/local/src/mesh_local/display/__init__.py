"""What `mesh-local` prints: the table of workloads and the report of each check."""
