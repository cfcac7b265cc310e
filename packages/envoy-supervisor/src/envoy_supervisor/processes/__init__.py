"""Starts one Envoy process, follows its output, and explains its exit."""
