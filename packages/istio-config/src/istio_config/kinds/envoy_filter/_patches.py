"""Patches: a change of some objects, by an operation and a value.

Source: Istio's API, networking/v1alpha3.
"""

from collections.abc import Mapping
from enum import StrEnum

from istio_config.kinds.envoy_filter._matches import ObjectMatch
from istio_config.kinds.fields import SpecFields, Unchecked


class ApplyTo(StrEnum):
    """The objects of Envoy's configuration that a patch is for."""

    LISTENER = "LISTENER"
    LISTENER_FILTER = "LISTENER_FILTER"
    FILTER_CHAIN = "FILTER_CHAIN"
    NETWORK_FILTER = "NETWORK_FILTER"
    HTTP_FILTER = "HTTP_FILTER"
    ROUTE_CONFIGURATION = "ROUTE_CONFIGURATION"
    VIRTUAL_HOST = "VIRTUAL_HOST"
    HTTP_ROUTE = "HTTP_ROUTE"
    CLUSTER = "CLUSTER"
    EXTENSION_CONFIG = "EXTENSION_CONFIG"
    BOOTSTRAP = "BOOTSTRAP"


class Operation(StrEnum):
    """The change that a patch makes."""

    MERGE = "MERGE"
    MERGE_AND_REPLACE_LIST = "MERGE_AND_REPLACE_LIST"
    """As MERGE, but lists are replaced."""
    ADD = "ADD"
    REMOVE = "REMOVE"
    INSERT_BEFORE = "INSERT_BEFORE"
    INSERT_AFTER = "INSERT_AFTER"
    INSERT_FIRST = "INSERT_FIRST"
    REPLACE = "REPLACE"

    @property
    def is_merge(self) -> bool:
        """Whether the value is a part of an object, which is merged into it."""
        return self in (Operation.MERGE, Operation.MERGE_AND_REPLACE_LIST)

    @property
    def is_insert(self) -> bool:
        """Whether the value is put before or after others."""
        return self in (Operation.INSERT_BEFORE, Operation.INSERT_AFTER, Operation.INSERT_FIRST)


class FilterClass(StrEnum):
    """The phase that a filter is added in."""

    UNSPECIFIED = "UNSPECIFIED"
    AUTHN = "AUTHN"
    AUTHZ = "AUTHZ"
    STATS = "STATS"


class PatchChange(SpecFields, frozen=True):
    """The change of a patch; `value` is plain data of the message that the patch is for."""

    operation: Operation
    value: Unchecked = None
    filter_class: FilterClass = FilterClass.UNSPECIFIED


class ConfigPatch(SpecFields, frozen=True):
    """One patch."""

    apply_to: ApplyTo
    patch: PatchChange
    match: ObjectMatch = ObjectMatch()


OF_LISTENERS = frozenset(
    {
        ApplyTo.LISTENER,
        ApplyTo.LISTENER_FILTER,
        ApplyTo.FILTER_CHAIN,
        ApplyTo.NETWORK_FILTER,
        ApplyTo.HTTP_FILTER,
    }
)
OF_ROUTES = frozenset({ApplyTo.ROUTE_CONFIGURATION, ApplyTo.VIRTUAL_HOST, ApplyTo.HTTP_ROUTE})
_ADDS = frozenset({Operation.ADD, *(each for each in Operation if each.is_insert)})
_MERGES = frozenset({each for each in Operation if each.is_merge})
_REMOVE, _REPLACE = frozenset({Operation.REMOVE}), frozenset({Operation.REPLACE})
OPERATIONS: Mapping[ApplyTo, frozenset[Operation]] = {
    ApplyTo.LISTENER: _MERGES | _ADDS | _REMOVE,
    ApplyTo.LISTENER_FILTER: _MERGES | _ADDS | _REMOVE | _REPLACE,
    ApplyTo.FILTER_CHAIN: _MERGES | _ADDS | _REMOVE,
    ApplyTo.NETWORK_FILTER: _MERGES | _ADDS | _REMOVE | _REPLACE,
    ApplyTo.HTTP_FILTER: _MERGES | _ADDS | _REMOVE | _REPLACE,
    ApplyTo.ROUTE_CONFIGURATION: _MERGES,
    ApplyTo.VIRTUAL_HOST: _MERGES | _ADDS | _REMOVE | _REPLACE,
    ApplyTo.HTTP_ROUTE: _MERGES | _ADDS | _REMOVE,
    ApplyTo.CLUSTER: _MERGES | _ADDS | _REMOVE,
    ApplyTo.EXTENSION_CONFIG: frozenset({Operation.ADD}),
    ApplyTo.BOOTSTRAP: _MERGES,
}
"""The operations that make sense for each `applyTo`."""


def is_deprecated_name(name: str) -> bool:
    """Return whether this is a name that filters had before `envoy.filters...`."""
    return name.startswith("envoy.") and not name.startswith("envoy.filters.")
