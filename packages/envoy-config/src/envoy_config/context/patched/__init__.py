"""The resources of proxies after the patches of EnvoyFilters."""
