"""Renders Envoy's bootstrap from typed configuration, and reads one that a user wrote."""
