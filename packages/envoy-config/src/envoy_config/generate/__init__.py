"""Envoy's resources, made of the model and of a proxy's plan by pure functions."""
