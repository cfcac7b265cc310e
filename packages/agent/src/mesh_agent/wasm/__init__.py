"""Envoy's filters of remote Wasm modules, which the agent fetches for it."""
