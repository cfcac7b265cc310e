"""Findings of a mesh: configuration without effect, or with another one than people expect.

Functions of a model: `review` and `unmatched` look for what no proxy can reach, what nothing uses
and what is shadowed; `advise` and `advise_on` for what works as it is configured and is probably
not meant. Each finding has the file and line of its object.
"""

from mesh_findings.advice._advice import Advice, advise, advise_on
from mesh_findings.reachability._empty_subsets import empty_subsets, selected_pods
from mesh_findings.reachability._findings import Findings, review
from mesh_findings.reachability._labels import NO_PODS, Pods, same_labels
from mesh_findings.reachability._references import (
    Reference,
    Sort,
    Undecided,
    gateway_targets,
    missing_subsets,
    references,
)
from mesh_findings.reachability._services import places_taken, reached_by_http_proxy
from mesh_findings.reachability._unmatched_labels import (
    Unmatched,
    selections_of_nothing,
    unmatched,
)
from mesh_findings.unused._gateways import left_out_problems

__all__ = [
    "NO_PODS",
    "Advice",
    "Findings",
    "Pods",
    "Reference",
    "Sort",
    "Undecided",
    "Unmatched",
    "advise",
    "advise_on",
    "empty_subsets",
    "gateway_targets",
    "left_out_problems",
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
