"""Adapts the xDS resources that Istio's control plane makes for its own Envoy to another Envoy.

An Envoy lists its extensions in its node. What it lacks is taken out or translated.
"""

from xds_adapter._adaptation import Action, Adaptation, Change
from xds_adapter._adapter import Adapter, adapt
from xds_adapter._extensions import Extensions, read_extensions

__all__ = [
    # beside a stream
    "Adapter",
    # one resource
    "Extensions",
    "adapt",
    "read_extensions",
    # what was done
    "Action",
    "Adaptation",
    "Change",
]
