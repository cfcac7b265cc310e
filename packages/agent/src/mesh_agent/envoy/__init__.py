"""How Envoy is started, and when it is replaced by a new one."""
