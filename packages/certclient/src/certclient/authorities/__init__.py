"""Where new certificates come from: the Istio CA API and the SPIFFE Workload API."""
