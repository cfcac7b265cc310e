"""Which hosts a proxy knows on a port, and whether a VirtualService applies to them."""
