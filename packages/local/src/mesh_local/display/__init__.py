"""The output of `mesh-local`: the table of workloads and the report of each check."""
