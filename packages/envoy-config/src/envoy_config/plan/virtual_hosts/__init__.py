"""Which hosts a proxy knows on a port, and whether a VirtualService governs them."""
