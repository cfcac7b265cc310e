"""Finds what is served as it is configured, and has another effect than people expect."""

from envoy_config.advice._advice import Advice, advise, advise_on

__all__ = ["Advice", "advise", "advise_on"]
