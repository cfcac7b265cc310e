"""The workload's certificate and trusted roots: where they come from, how Envoy gets them."""
