"""A module of WebAssembly: where it is, what it is given, and what happens without it.

Source: Istio's API, extensions/v1alpha1, and its validation.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from urllib.parse import urlsplit

from istio_config.kinds.fields import SpecFields, Unchecked
from mesh_configfile.shapes import Finding

DEFAULT_SCHEME = "oci"
"""Of a URL without one: an image in a registry."""
FILE_SCHEME = "file"
_SCHEMES = (DEFAULT_SCHEME, "http", "https", FILE_SCHEME)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_MOST_SECRET_BYTES, _MOST_NAME_BYTES = 253, 256
_OF_THE_AGENT = "ISTIO_META_"


class PullPolicy(StrEnum):
    """Whether a module that was fetched before is fetched again."""

    UNSPECIFIED_POLICY = "UNSPECIFIED_POLICY"
    """As IfNotPresent, but always an image with the tag `latest`."""
    IF_NOT_PRESENT = "IfNotPresent"
    ALWAYS = "Always"
    """Once for each version of the object."""


class FailStrategy(StrEnum):
    """The fate of traffic where a module can't be had, or has crashed."""

    FAIL_CLOSE = "FAIL_CLOSE"
    """It is refused."""
    FAIL_OPEN = "FAIL_OPEN"
    """It goes on without the module."""
    FAIL_RELOAD = "FAIL_RELOAD"
    """A module that crashed is started anew; one that can't be had is as with FAIL_CLOSE."""


class PluginType(StrEnum):
    """The traffic that a module works on."""

    UNSPECIFIED_PLUGIN_TYPE = "UNSPECIFIED_PLUGIN_TYPE"
    """Requests."""
    HTTP = "HTTP"
    NETWORK = "NETWORK"
    """Connections."""


class ValueFrom(StrEnum):
    """Where the value of a variable is."""

    INLINE = "INLINE"
    """In the object."""
    HOST = "HOST"
    """In Envoy's own environment."""


class EnvVar(SpecFields, frozen=True):
    """A variable of a module's environment."""

    name: str = ""
    value: str = ""
    value_from: ValueFrom = ValueFrom.INLINE


class VmConfig(SpecFields, frozen=True):
    """The machine that a module runs on."""

    env: tuple[EnvVar, ...] = ()


class WasmFields(SpecFields, frozen=True):
    """The fields of a module, which WasmPlugin and TrafficExtension share."""

    url: str = ""
    sha256: str = ""
    image_pull_policy: PullPolicy = PullPolicy.UNSPECIFIED_POLICY
    image_pull_secret: str = ""
    verification_key: str = ""
    plugin_config: dict[str, Unchecked] | None = None
    """What the module is given at its start, as JSON."""
    plugin_name: str = ""
    """The root id: which of a module's several plugins is meant."""
    fail_strategy: FailStrategy = FailStrategy.FAIL_CLOSE
    vm_config: VmConfig | None = None
    type: PluginType = PluginType.UNSPECIFIED_PLUGIN_TYPE

    @property
    def is_network(self) -> bool:
        """Whether it works on connections, not on requests."""
        return self.type is PluginType.NETWORK

    @property
    def scheme(self) -> str:
        """The scheme of its URL, in lower case."""
        found = _SCHEME.match(self.url)
        return found[1].lower() if found is not None else DEFAULT_SCHEME

    @property
    def path(self) -> str:
        """The path of a file; empty: it is none."""
        return self.url.partition("://")[2] if self.scheme == FILE_SCHEME else ""


class WasmConfig(WasmFields, frozen=True):
    """A module."""


def wasm_mistakes(wasm: WasmFields) -> Iterator[Finding]:
    """Yield what is wrong with a module; paths start below its fields."""
    if (wrong := _wrong_url(wasm)) is not None:
        yield ("url",), wrong
    if wasm.sha256 and _CHECKSUM.fullmatch(wasm.sha256) is None:
        yield ("sha256",), f'"{wasm.sha256[:80]}" is not 64 digits of hex, in lower case'
    for name, text, most in (
        ("imagePullSecret", wasm.image_pull_secret, _MOST_SECRET_BYTES),
        ("pluginName", wasm.plugin_name, _MOST_NAME_BYTES),
    ):
        if (size := len(text.encode())) > most:
            yield (name,), f"has {size} bytes, at most {most} are taken"
    seen: set[str] = set()
    for index, each in enumerate(wasm.vm_config.env if wasm.vm_config is not None else ()):
        path = ("vmConfig", "env", index)
        if not each.name:
            yield (*path, "name"), "is empty: name a variable"
        elif len(each.name.encode()) > _MOST_NAME_BYTES:
            yield (*path, "name"), f"has more than {_MOST_NAME_BYTES} bytes"
        elif each.name in seen:
            yield (*path, "name"), f"the variable {each.name} is given twice"
        seen.add(each.name)
        if each.value_from is ValueFrom.HOST and each.value:
            yield (
                (*path, "value"),
                "stands beside valueFrom: HOST, which takes Envoy's own: keep one",
            )


def wasm_warnings(wasm: WasmFields) -> Iterator[Finding]:
    """Yield what is accepted and has no effect; paths start below its fields."""
    if wasm.verification_key:
        yield (
            ("verificationKey",),
            "is not supported, as in Istio: no signature is looked at; give sha256",
        )
    if wasm.image_pull_secret and wasm.scheme != DEFAULT_SCHEME:
        yield ("imagePullSecret",), f"has no effect with {wasm.scheme}: it is for images (oci)"
    if wasm.path and not wasm.path.startswith("/"):
        yield ("url",), "is a relative path: Envoy looks for it below its working directory"
    if wasm.sha256 and wasm.scheme == FILE_SCHEME:
        yield ("sha256",), "has no effect with file: Envoy reads the file as it is"
    for index, each in enumerate(wasm.vm_config.env if wasm.vm_config is not None else ()):
        if each.name.startswith(_OF_THE_AGENT):
            yield (
                ("vmConfig", "env", index, "name"),
                f"{_OF_THE_AGENT}... are the agent's own variables: the module does not get it",
            )


def _wrong_url(wasm: WasmFields) -> str | None:
    if not wasm.url:
        return "is empty: give oci://REGISTRY/IMAGE:TAG, https://..., or file:///PATH"
    if wasm.scheme not in _SCHEMES:
        return f'"{wasm.scheme}" is not fetched from; use one of {", ".join(_SCHEMES)}'
    if wasm.scheme == FILE_SCHEME:
        return None if wasm.path else "needs a path: file:///PATH"
    text = wasm.url if _SCHEME.match(wasm.url) else f"{DEFAULT_SCHEME}://{wasm.url}"
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises for one that is no number
    except ValueError:
        return f'"{wasm.url[:200]}" is no URL: its host or port can\'t be read'
    if not parts.hostname or any(each.isspace() or not each.isprintable() for each in wasm.url):
        return f'"{wasm.url[:200]}" is no URL: it needs a host, and no spaces'
    return None
