"""Finds patches of EnvoyFilters that depend on the order in which others are applied."""

from collections.abc import Iterator, Mapping

from istio_config.kinds.envoy_filter import ENVOY_FILTER, ConfigPatch, Operation
from mesh_configfile import Problem
from mesh_findings.advice._mesh import Mesh

_RELATIVE = frozenset(
    {Operation.INSERT_BEFORE, Operation.INSERT_AFTER, Operation.REPLACE, Operation.REMOVE}
)


def relative_patches(mesh: Mesh) -> Iterator[Problem]:
    """Yield patches that look for another filter, in EnvoyFilters without a priority.

    They find it if it is the control plane's own, or of an older EnvoyFilter.
    """
    of_versions: set[str] = set()
    for item, spec in mesh.of_kind(ENVOY_FILTER):
        for index, patch in enumerate(spec.config_patches):
            name = _filter_name(patch)
            operation = patch.patch.operation
            if operation in _RELATIVE and spec.priority == 0:
                beside = name in of_versions
                yield item.problem(
                    ("spec", "configPatches", index, "patch", "operation"),
                    f"{operation} in an EnvoyFilter without priority finds what the control plane "
                    "and older EnvoyFilters make"
                    + (
                        ", and one of them is for some versions of the proxy alone"
                        if beside
                        else ""
                    )
                    + "; a priority above 0 puts it behind all others",
                    "IST0155" if beside else "IST0151",
                )
            proxy = patch.match.proxy
            if proxy is not None and proxy.proxy_version:
                of_versions.add(name)


def _filter_name(patch: ConfigPatch) -> str:
    value = patch.patch.value
    if isinstance(value, Mapping) and isinstance(name := value.get("name"), str):
        return name
    listener = patch.match.listener
    chain = listener.filter_chain if listener is not None else None
    return chain.filter.name if chain is not None and chain.filter is not None else ""
