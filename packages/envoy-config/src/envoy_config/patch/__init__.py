"""Patches of EnvoyFilters, applied to messages of Envoy's configuration: pure functions."""
