"""ECDS resources with remote Wasm modules, rewritten so that Envoy reads the modules from files."""
