"""Which endpoints of a service a client is sent, and by which way it reaches them."""
