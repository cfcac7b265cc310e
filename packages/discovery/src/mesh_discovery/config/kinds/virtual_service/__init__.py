"""VirtualService: how requests and connections to hosts are routed."""
