"""Gateway: the ports that routers open, with their hosts and certificates."""
