"""The listeners of proxies that connections are led to which were going elsewhere."""
