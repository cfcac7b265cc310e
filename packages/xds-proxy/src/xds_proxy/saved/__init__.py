"""The last accepted configuration on disk, for an Envoy that starts without a control plane."""
