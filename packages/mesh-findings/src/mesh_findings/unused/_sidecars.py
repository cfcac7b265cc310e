"""Finds Sidecars, or parts of them, without effect; problems say where in the files.

Each object is valid by itself. Another Sidecar may come before it, a host may be no service's, or
be hidden from the namespace, and a listener may wait for connections that nothing leads to it.
"""

from collections.abc import Iterator

from istio_config import ConfigObject
from istio_config.edits import edits, replacements
from istio_config.kinds.sidecar import (
    ANY,
    SIDECAR,
    CaptureMode,
    EgressHost,
    SidecarSpec,
    parse_egress_host,
)
from mesh_configfile import Problem
from mesh_model import MeshModel


def unused_sidecars(model: MeshModel, *, redirected: bool) -> Iterator[Problem]:
    """Yield a problem for each part of a Sidecar that has no effect.

    redirected: nft or iptables rules redirect traffic to the proxies of the mesh.
    """
    for_all: dict[str, ConfigObject] = {}
    for item in model.rules.of_kind(SIDECAR):
        spec = item.spec
        if not isinstance(spec, SidecarSpec):
            continue
        if spec.workload_selector is None:
            older = for_all.setdefault(item.namespace, item)
            if older is not item:
                yield item.problem(
                    ("metadata", "name"),
                    f"no proxy has this one: {older.name} ({older.place}) comes first "
                    "for the workloads of the namespace; give one of the two a workloadSelector",
                    "IST0111",
                )
        yield from _hosts(item, spec, model)
        if not redirected:
            yield from _redirected(item, spec)


def same_sidecars(old: MeshModel, new: MeshModel) -> bool:
    """Return whether `unused_sidecars` finds the same in both, if their services are the same."""
    objects = old.rules.of_kind(SIDECAR), new.rules.of_kind(SIDECAR)
    return (
        old.sidecars is new.sidecars
        and replacements(*objects) == []
        and (not objects[1] or _same_virtual_hosts(old, new))
    )


def _same_virtual_hosts(old: MeshModel, new: MeshModel) -> bool:
    """Return whether VirtualServices have the same hosts, for the same namespaces and gateways."""
    changed = edits(old.virtual_services.all, new.virtual_services.all)
    gone, come = (
        {(each.namespace, each.hosts, each.gateways, each.mesh_export_to) for each in some}
        for some in changed
    )
    return gone == come


def _hosts(item: ConfigObject, spec: SidecarSpec, model: MeshModel) -> Iterator[Problem]:
    if item.namespace == model.mesh_config.root_namespace:
        return  # it is for other namespaces too, which see other services
    for index, egress in enumerate(spec.egress):
        for place, text in enumerate(egress.hosts):
            host = parse_egress_host(text, item.namespace)
            if host.is_excluded or host.host.startswith("*"):
                continue
            if not _brings_in(host, item.namespace, model):
                yield item.problem(
                    ("spec", "egress", index, "hosts", place),
                    f'"{text}" imports nothing: there is no service and no VirtualService of '
                    "this host that is exported to this namespace",
                )
    policy = spec.outbound_traffic_policy
    proxy = policy.egress_proxy if policy is not None else None
    if proxy is None:
        return
    named = proxy.host.lower()
    aliased = model.indices.aliased(named)
    target = aliased[1] if aliased is not None else named
    if not _brings_in(EgressHost(ANY, target), item.namespace, model):
        yield item.problem(
            ("spec", "outboundTrafficPolicy", "egressProxy", "host"),
            f'there is no service "{proxy.host}" that is exported to this namespace: calls of '
            "unknown hosts fail",
        )


def _brings_in(host: EgressHost, namespace: str, model: MeshModel) -> bool:
    return any(
        model.by_key[key].visible_in(namespace)
        for key in model.indices.services.find(host.namespace, host.host)
    ) or any(
        each.mesh_export_to & {namespace, ANY}
        for each in model.indices.virtual_services.find(host.namespace, host.host)
    )


def _redirected(item: ConfigObject, spec: SidecarSpec) -> Iterator[Problem]:
    modes = {
        "ingress": [each.capture_mode for each in spec.ingress],
        "egress": [each.capture_mode for each in spec.egress],
    }
    for name, of_listeners in modes.items():
        for index, mode in enumerate(of_listeners):
            if mode is CaptureMode.IPTABLES:
                yield item.problem(
                    ("spec", name, index, "captureMode"),
                    "IPTABLES is for redirected connections, and none are redirected here: this "
                    "listener gets no connections; use DEFAULT or NONE",
                )
