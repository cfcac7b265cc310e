"""Finds what is configured and comes to nothing: no proxy can reach it, or nothing uses it."""

from envoy_config.reachability._judgement import Judgement, judge
from envoy_config.reachability._references import (
    Reference,
    Sort,
    Undecided,
    missing_subsets,
    references,
)
from envoy_config.reachability._selections import selections_of_nothing
from envoy_config.reachability._services import places_taken, reached_by_http_proxy
from envoy_config.reachability._unmatched import Unmatched, empty_subsets, unmatched

__all__ = [
    "Judgement",
    "Reference",
    "Sort",
    "Undecided",
    "Unmatched",
    "empty_subsets",
    "judge",
    "missing_subsets",
    "places_taken",
    "reached_by_http_proxy",
    "references",
    "selections_of_nothing",
    "unmatched",
]
