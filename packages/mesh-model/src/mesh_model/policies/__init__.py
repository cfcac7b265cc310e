"""The objects that are for workloads by their labels: policies, Telemetry, EnvoyFilters."""
