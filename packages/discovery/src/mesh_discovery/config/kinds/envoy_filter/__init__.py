"""Patches of the configuration that proxies are sent, in terms of Envoy's own API."""
