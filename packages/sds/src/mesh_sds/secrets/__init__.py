"""Secrets as a source gives them, and in the form in which Envoy reads them."""
