"""The types whose resources the agent changes before Envoy gets them."""
