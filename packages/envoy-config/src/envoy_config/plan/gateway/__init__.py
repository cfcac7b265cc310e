"""Where a router listens and what for: the servers of its Gateways, merged by port."""
