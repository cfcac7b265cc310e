"""VirtualServices as they act: names resolved, delegates merged, in the order in which they win."""
