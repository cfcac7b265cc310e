"""Finds configuration without effect: no proxy can reach it, nothing uses it, or it is shadowed."""

from envoy_config.reachability._findings import Findings, review
from envoy_config.reachability._references import (
    Reference,
    Sort,
    Undecided,
    gateway_targets,
    missing_subsets,
    references,
)
from envoy_config.reachability._services import places_taken, reached_by_http_proxy
from envoy_config.reachability._unmatched_labels import (
    NO_PODS,
    Pods,
    Unmatched,
    empty_subsets,
    same_labels,
    selected_pods,
    selections_of_nothing,
    unmatched,
)

__all__ = [
    "Findings",
    "NO_PODS",
    "Pods",
    "Reference",
    "Sort",
    "Undecided",
    "Unmatched",
    "empty_subsets",
    "gateway_targets",
    "missing_subsets",
    "places_taken",
    "reached_by_http_proxy",
    "references",
    "review",
    "same_labels",
    "selected_pods",
    "selections_of_nothing",
    "unmatched",
]
