"""A network of its own for each workload, in which connections are redirected to its Envoy."""
