"""The kinds: TrafficExtension, and the older WasmPlugin, which has the fields of a module itself.

Source: Istio's API, extensions/v1alpha1, and its validation.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, TypeAlias

from istio_config.kinds.checks import below
from istio_config.kinds.fields import PortNumber, SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.selection import (
    Selection,
    TargetRef,
    WorkloadSelector,
    selection_mistakes,
    selection_of,
    selection_warnings,
)
from istio_config.kinds.traffic_extension._lua import LuaConfig, lua_mistakes, lua_warnings
from istio_config.kinds.traffic_extension._wasm import (
    WasmConfig,
    WasmFields,
    wasm_mistakes,
    wasm_warnings,
)
from mesh_configfile.shapes import Finding


class ExtensionPhase(StrEnum):
    """Where an extension stands among the filters of a proxy."""

    UNSPECIFIED = "UNSPECIFIED"
    """Behind the others, before the router."""
    AUTHN = "AUTHN"
    """Before the filters that look at tokens."""
    AUTHZ = "AUTHZ"
    """Between these and the policies that allow and deny."""
    STATS = "STATS"
    """Behind the policies."""


class PluginPhase(StrEnum):
    """The phases by the names that they have in a WasmPlugin."""

    UNSPECIFIED_PHASE = "UNSPECIFIED_PHASE"
    AUTHN = "AUTHN"
    AUTHZ = "AUTHZ"
    STATS = "STATS"


class TrafficSide(StrEnum):
    """The side of a request or connection that a workload is on."""

    UNDEFINED = "UNDEFINED"
    """Both."""
    CLIENT = "CLIENT"
    """It calls, or is a gateway."""
    SERVER = "SERVER"
    """It is called."""
    CLIENT_AND_SERVER = "CLIENT_AND_SERVER"


class PortSelector(SpecFields, frozen=True):
    """A port by its number."""

    number: PortNumber


class TrafficMatch(SpecFields, frozen=True):
    """Traffic by the side that the workload is on, and by ports: none: all."""

    mode: TrafficSide = TrafficSide.CLIENT_AND_SERVER
    ports: tuple[PortSelector, ...] = ()


class TrafficExtensionSpec(SpecFields, frozen=True):
    """A module, or a script, for some workloads."""

    selector: WorkloadSelector | None = None
    target_refs: tuple[TargetRef, ...] = ()
    phase: ExtensionPhase = ExtensionPhase.UNSPECIFIED
    priority: int | None = None
    """Higher ones come first in a phase; those without one last."""
    match: tuple[TrafficMatch, ...] = ()
    wasm: WasmConfig | None = None
    lua: LuaConfig | None = None

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""
        return selection_of(self.selector, self.target_refs)

    @property
    def module(self) -> WasmFields | None:
        """The module; None: it is a script."""
        return self.wasm

    @property
    def script(self) -> str:
        """The script, in Lua; empty: it is a module."""
        return self.lua.inline_code if self.lua is not None else ""

    @property
    def place(self) -> ExtensionPhase:
        """Where it stands among the filters."""
        return self.phase


class WasmPluginSpec(WasmFields, frozen=True):
    """A module for some workloads."""

    selector: WorkloadSelector | None = None
    target_ref: TargetRef | None = None
    """The older way to give one of `target_refs`."""
    target_refs: tuple[TargetRef, ...] = ()
    phase: PluginPhase = PluginPhase.UNSPECIFIED_PHASE
    priority: int | None = None
    match: tuple[TrafficMatch, ...] = ()

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""
        refs = self.target_refs if self.target_ref is None else (self.target_ref,)
        return selection_of(self.selector, refs)

    @property
    def module(self) -> WasmFields:
        """The module."""
        return self

    @property
    def script(self) -> str:
        """None: it is a module."""
        return ""

    @property
    def place(self) -> ExtensionPhase:
        """Where it stands among the filters."""
        if self.phase is PluginPhase.UNSPECIFIED_PHASE:
            return ExtensionPhase.UNSPECIFIED
        return ExtensionPhase(self.phase.value)


ExtensionSpec: TypeAlias = TrafficExtensionSpec | WasmPluginSpec


def _mistakes(spec: TrafficExtensionSpec, metadata: Metadata) -> Iterator[Finding]:
    labels = spec.selector.match_labels if spec.selector is not None else None
    yield from selection_mistakes(labels, spec.target_refs, metadata.namespace)
    yield from _priority_mistakes(spec.priority)
    if (spec.wasm is None) == (spec.lua is None):
        given = "both" if spec.wasm is not None else "neither"
        yield (), f"must have one of wasm and lua; it has {given}"
    if spec.wasm is not None:
        yield from below(("wasm",), wasm_mistakes(spec.wasm))
    if spec.lua is not None:
        yield from below(("lua",), lua_mistakes(spec.lua))


def _warnings(spec: TrafficExtensionSpec, _metadata: Metadata) -> Iterator[Finding]:
    yield from selection_warnings(spec.target_refs)
    yield from _selector_warnings(spec.selector)
    if spec.wasm is not None:
        yield from below(("wasm",), wasm_warnings(spec.wasm))
    if spec.lua is not None:
        yield from below(("lua",), lua_warnings(spec.lua))


def _plugin_mistakes(spec: WasmPluginSpec, metadata: Metadata) -> Iterator[Finding]:
    labels = spec.selector.match_labels if spec.selector is not None else None
    yield from selection_mistakes(
        labels, spec.target_refs, metadata.namespace, single=spec.target_ref
    )
    yield from _priority_mistakes(spec.priority)
    yield from wasm_mistakes(spec)


def _plugin_warnings(spec: WasmPluginSpec, _metadata: Metadata) -> Iterator[Finding]:
    yield from selection_warnings(spec.target_refs, spec.target_ref)
    yield from _selector_warnings(spec.selector)
    yield from wasm_warnings(spec)


def _priority_mistakes(priority: int | None) -> Iterator[Finding]:
    if priority is not None and not -(2**31) <= priority < 2**31:
        yield ("priority",), f"{priority} is no number of 32 bits"


def _selector_warnings(selector: WorkloadSelector | None) -> Iterator[Finding]:
    if selector is not None and not selector.match_labels:
        yield ("selector",), "has no labels: it is for all workloads of the namespace"


TRAFFIC_EXTENSION = Kind(
    name="TrafficExtension",
    group="extensions.istio.io",
    versions=("v1alpha1",),
    spec=TrafficExtensionSpec,
    validate=_mistakes,
    warn=_warnings,
)
WASM_PLUGIN = Kind(
    name="WasmPlugin",
    group="extensions.istio.io",
    versions=("v1alpha1",),
    spec=WasmPluginSpec,
    validate=_plugin_mistakes,
    warn=_plugin_warnings,
)
EXTENSION_KINDS: tuple[Kind[Any], ...] = (TRAFFIC_EXTENSION, WASM_PLUGIN)
"""Both kinds, whose objects stand in one order at a proxy."""
MOST_EXTENSIONS = 100
"""As many of a namespace act at one proxy, the oldest; Istio has no bound. The root namespace's
count for themselves."""
