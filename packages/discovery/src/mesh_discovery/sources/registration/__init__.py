"""Workloads that proxies register, and the health of the applications beside them."""
