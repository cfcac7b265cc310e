"""Envoy's resources, generated from the model and a proxy's plan by pure functions."""
