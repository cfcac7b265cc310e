"""The documents by which the control plane gives one workload's Envoy a fault, and no other's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mesh_local._parts import Called
from mesh_local.state._istio import WORKLOAD_LABEL

MARK = "mesh_local.fault"
_FAULT_FILTER = "envoy.filters.http.fault"
_FAULT = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"
_NO_ADDRESS_HERE = "0.0.0.1"
"""Of "this network" (RFC 6890), so that no machine has it and no socket is bound to it."""
_ALL = {"numerator": 100, "denominator": "HUNDRED"}
_LAST = 1000
"""A priority after those that users give their own EnvoyFilters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFault:
    """The change to requests of one workload to another; None: nothing of that sort."""

    delay_s: float | None = None
    abort_status: int | None = None

    def with_values_of(self, other: "HttpFault") -> "HttpFault":
        """Return the values of another, and where it has none, these."""
        return replace(
            self,
            delay_s=self.delay_s if other.delay_s is None else other.delay_s,
            abort_status=self.abort_status if other.abort_status is None else other.abort_status,
        )


def http_fault(
    fault: HttpFault, *, name: str, workload: str, namespace: str, called: Called, mark: str
) -> dict[str, Any]:
    """Return the EnvoyFilter by which a workload's requests to a service have this fault.

    It is on each route: one VirtualService governs a host, and the user may have one already.
    """
    configured: dict[str, Any] = {"@type": _FAULT}
    if fault.delay_s is not None:
        configured["delay"] = {"fixed_delay": f"{fault.delay_s:.9f}s", "percentage": _ALL}
    if fault.abort_status is not None:
        configured["abort"] = {"http_status": fault.abort_status, "percentage": _ALL}
    value = {"typed_per_filter_config": {_FAULT_FILTER: configured}, "metadata": _marked(mark)}
    patches = [
        {
            "applyTo": "HTTP_ROUTE",
            "match": {
                "context": "SIDECAR_OUTBOUND",
                "routeConfiguration": {"vhost": {"name": f"{called.host}:{port}"}},
            },
            "patch": {"operation": "MERGE", "value": value},
        }
        for port in called.http_ports
    ]
    return _filter(patches, name=name, workload=workload, namespace=namespace)


def cut(*, name: str, workload: str, namespace: str, called: Called, mark: str) -> dict[str, Any]:
    """Return the EnvoyFilter by which no connection of a workload to a service comes about.

    Each is to come from an address that this machine does not have, which the kernel refuses at
    once. A cluster of other endpoints would be needed for each port and subset that there is
    now; this one change holds for those of rules to come, too.
    """
    value = {
        "upstream_bind_config": {
            "source_address": {"address": _NO_ADDRESS_HERE, "port_value": 0},
        },
        "metadata": _marked(mark),
    }
    patch = {
        "applyTo": "CLUSTER",
        "match": {"context": "SIDECAR_OUTBOUND", "cluster": {"service": called.host}},
        "patch": {"operation": "MERGE", "value": value},
    }
    return _filter([patch], name=name, workload=workload, namespace=namespace)


def _marked(mark: str) -> Mapping[str, Any]:
    return {"filter_metadata": {MARK: {mark: True}}}


def _filter(
    patches: list[dict[str, Any]], *, name: str, workload: str, namespace: str
) -> dict[str, Any]:
    return {
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "workloadSelector": {"labels": {WORKLOAD_LABEL: workload}},
            "priority": _LAST,
            "configPatches": patches,
        },
    }
