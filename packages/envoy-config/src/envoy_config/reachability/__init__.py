"""Finds configuration without effect: no proxy can reach it, nothing uses it, or it is shadowed."""

from envoy_config.reachability._findings import Findings, review
from envoy_config.reachability._references import (
    Reference,
    Sort,
    Undecided,
    missing_subsets,
    references,
)
from envoy_config.reachability._services import places_taken, reached_by_http_proxy
from envoy_config.reachability._unmatched_labels import (
    Unmatched,
    empty_subsets,
    selections_of_nothing,
    unmatched,
)

__all__ = [
    "Findings",
    "Reference",
    "Sort",
    "Undecided",
    "Unmatched",
    "empty_subsets",
    "missing_subsets",
    "places_taken",
    "reached_by_http_proxy",
    "references",
    "review",
    "selections_of_nothing",
    "unmatched",
]
