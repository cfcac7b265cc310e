"""Translators between the two dialects, for an Envoy and a control plane that share neither."""
