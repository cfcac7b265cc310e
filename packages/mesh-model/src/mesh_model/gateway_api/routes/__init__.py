"""The rules of routes in terms of VirtualServices: matches, filters, backends, and their order."""
