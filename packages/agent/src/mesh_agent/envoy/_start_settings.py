"""The settings of its start that the control plane's ProxyConfigs have otherwise than the agent.

Worker threads and variables are an Envoy's and an agent's from their start on, and so Istio's
objects act where a workload is started (injection). What comes later over the configuration stream
is compared and reported, and changes nothing of what runs
(docs/decisions/0062-proxy-configs-act-at-a-start.md).
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

import xds_proxy
from istio_settings import ProxyConfig, Settings
from mesh_protowire import merged, number_of, text_of, values_of

log = logging.getLogger(__name__)

_CONCURRENCY, _PROXY_METADATA = 16, 24  # of istio.mesh.v1alpha1.ProxyConfig
_MOST_NAMES = 32
_LONGEST_NAME = 128


class StartSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that ProxyConfigs can have otherwise, as they were at the start.

    concurrency: Envoy's worker threads, 0: one for each core; None where ProxyConfigs don't decide
        on them: there is no Envoy, or a flag or the Pod's annotation has them.
    own: the names of variables that the Pod's annotation has. All others are in the environment.
    """

    concurrency: int | None
    own: frozenset[str] = frozenset()


def start_settings(settings: Settings, proxy: ProxyConfig, *, concurrency: int) -> StartSettings:
    """Return the settings of a start. concurrency: that of Envoy."""
    decided = "concurrency" in proxy.origins and _is_own(proxy.place("concurrency").layer.name)
    without_envoy = settings.flag("DISABLE_ENVOY")
    own = (name for name, layer in proxy.metadata_origins.items() if _is_own(layer))
    return StartSettings(
        concurrency=None if decided or without_envoy else concurrency, own=frozenset(own)
    )


def _is_own(layer: str) -> bool:
    """Return whether a layer is above what an injector writes into PROXY_CONFIG."""
    return layer.startswith(("annotation ", "flag "))


class _Differences(NamedTuple):
    """concurrency: that of ProxyConfigs, if it is another. variables: the names of others."""

    concurrency: int | None = None
    variables: tuple[str, ...] = ()


class StartDifferences:
    """Keeps what ProxyConfigs want otherwise than it was at the start, by what came last."""

    def __init__(self, start: StartSettings, environ: Mapping[str, str]) -> None:
        """environ: the variables of this process, and so of its Envoy."""
        self._start = start
        self._environ = environ
        self._found = _Differences()

    def apply(self, response: bytes) -> None:
        """Compare with a response, and log what differs if it is something else than before.

        Raises `WireError`.
        """
        found = _differences(response, self._start, self._environ)
        if found == self._found:
            return
        self._found = found
        if found == _Differences():
            log.info("proxy configs want what the agent was started with")
            return
        log.warning(
            "proxy configs want settings that the agent was not started with: they act when it is "
            "started with them",
            extra=self.describe(),
        )

    def describe(self) -> Mapping[str, object]:
        """Return what differs; {} if nothing does. Of variables the names alone: no secrets."""
        found = self._found
        described: dict[str, object] = {}
        if found.concurrency is not None:
            described["concurrency"] = found.concurrency
            described["started_with_concurrency"] = self._start.concurrency
        if found.variables:
            described["variables"] = [
                each[:_LONGEST_NAME] for each in found.variables[:_MOST_NAMES]
            ]
            described["variables_count"] = len(found.variables)
        return described


def _differences(response: bytes, start: StartSettings, environ: Mapping[str, str]) -> _Differences:
    concurrency: int | None = None
    variables: dict[str, str] = {}
    for body in xds_proxy.resource_bodies(response):
        if (wrapped := merged(body, _CONCURRENCY)) is not None:
            concurrency = number_of(wrapped, 1)
        for entry in values_of(body, _PROXY_METADATA):
            variables[text_of(entry, 1)] = text_of(entry, 2)
    if start.concurrency is None or concurrency == start.concurrency:
        concurrency = None
    names = (
        name
        for name, value in variables.items()
        if name not in start.own and environ.get(name, "") != value
    )
    return _Differences(concurrency, tuple(sorted(names)))
