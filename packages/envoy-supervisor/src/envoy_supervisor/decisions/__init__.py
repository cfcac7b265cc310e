"""Decides, as pure functions from events to actions, when Envoy processes start, drain and end."""
