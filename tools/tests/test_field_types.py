"""No field of a public configuration takes a value of another type in silence.

Over all packages, by reflection: a path, an identity, a duration or an address of another type is
converted or refused, by an error that names the field.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from mesh_lifecycle import with_checked_fields

ROOT = Path(__file__).parents[2]

FACTS = frozenset(
    {
        # Made by the packages, to be read.
        *("mesh_listening.AcceptedPeer", "xds_server.Bound", "xds_server.Client"),
        *("xds_server.ClientStatus", "xds_server.Peer", "xds_server.Admission"),
        *("certclient.Certificate", "mesh_sds.ForeignSocket", "mesh_sds.OwnSocket"),
        *("xds_proxy.ControlPlaneStatus", "mesh_dnsproxy.ShownRecord", "mesh_ca.Credentials"),
        *("mesh_token_exchange.AccessToken", "mesh_status_server.Request", "mesh_discovery.Load"),
        *("istio_settings.Read", "istio_settings.NodeIdentity", "istio_settings.ProxyConfig"),
        *("mesh_local.Instance", "mesh_local.StateFolder", "mesh_local.MeshFile"),
        *("mesh_local.Response", "mesh_model.Endpoint", "mesh_traffic_capture.IstioSettings"),
        # Content that a server serves, made for each resource.
        *("xds_server.Resource", "mesh_dnsproxy.NameEntry"),
        # Read from a filter's configuration, and told of it.
        *("wasm_modules.ModuleRequest", "wasm_modules.FilterStatus"),
    }
)
EXAMPLES: Mapping[str, Mapping[str, object]] = {
    "certclient.IstioCaConfig": {"address": "ca.example:15012"},
    "certclient.WorkloadApiConfig": {"address": "unix:///run/spire.sock"},
    "mesh_sds.PrivateKeyProvider": {"poll_delay": timedelta(seconds=1)},
    "mesh_token_exchange.Rfc8693Config": {"url": "https://sts.example/token", "client_id": "c"},
}


class Known(NamedTuple):
    """A public class and the types of its fields, as they are written."""

    name: str
    kind: type
    fields: Mapping[str, str]


def public_classes() -> Iterator[Known]:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mesh"]["may-import"]
    for package in packages:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            kind = getattr(module, name)
            if isinstance(kind, type) and f"{package}.{name}" not in FACTS and _has_fields(kind):
                yield Known(f"{package}.{name}", kind, _fields(kind))


def _has_fields(kind: type) -> bool:
    return (
        dataclasses.is_dataclass(kind)
        or issubclass(kind, msgspec.Struct)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )


def _fields(kind: type) -> dict[str, str]:
    found: dict[str, object] = {}
    for each in reversed(kind.__mro__):
        found |= getattr(each, "__annotations__", {})
    return {name: _written(each) for name, each in found.items() if not name.startswith("_")}


def _written(annotation: object) -> str:
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    text = str(getattr(annotation, "__forward_arg__", annotation))
    return re.sub(r"\b\w+\.", "", text)


def wrong_values(  # noqa: PLR0911 - a kind of field each
    name: str, types: str
) -> list[object]:
    """Values of another type, and negative durations and those that are no number."""
    alternatives = {each.strip() for each in types.split("|")}
    if "Path" in alternatives:
        return ["a/file.pem", b"a/file.pem", 5, "", "~/file.pem", Path("~/file.pem"), True]
    if "tuple[Path, ...]" in alternatives:
        return ["a/file.pem", (b"a",), (5,), ["a/file.pem"]]
    if "SpiffeId" in alternatives:
        return ["spiffe://cluster.local/ns/a/sa/b", 5]
    if "timedelta" in alternatives:
        return [3600, 1.5, "1h", timedelta(seconds=-1)]
    if name.endswith("_s") and alternatives & {"float", "int"}:
        return ["10", timedelta(seconds=1), -1, float("nan"), True]
    if name == "address" and "str" in alternatives:
        return [5, b"127.0.0.1:80", Path("a")]
    return []


CASES = [
    pytest.param(known, field, wrong, id=f"{known.name}.{field}={wrong!r}")
    for known in public_classes()
    for field, types in known.fields.items()
    for wrong in wrong_values(field, types)
]


def example(known: Known) -> dict[str, object]:
    """Values for the fields that have no default."""
    given = dict(EXAMPLES.get(known.name, {}))
    for name, types in known.fields.items():
        if name not in given and not _has_default(known.kind, name):
            given[name] = _value(types)
    if "client_id" in given:
        given["client_secret_file"] = Path("secret")
    return given


def _has_default(kind: type, name: str) -> bool:
    if dataclasses.is_dataclass(kind):
        field = next((each for each in dataclasses.fields(kind) if each.name == name), None)
        if field is None:
            return True
        missing = dataclasses.MISSING
        return field.default is not missing or field.default_factory is not missing
    if issubclass(kind, msgspec.Struct):
        return not next(each for each in msgspec.structs.fields(kind) if each.name == name).required
    return name in getattr(kind, "_field_defaults", {})


class _Any:
    """Stands for values of all other types."""


def _value(types: str) -> object:
    alternatives = [each.strip() for each in types.split("|")]
    for wanted, value in (
        ("None", None),
        ("Path", Path("file")),
        ("str", "text"),
        ("int", 1),
        ("float", 1.0),
        ("bool", False),
        ("timedelta", timedelta(seconds=1)),
    ):
        if wanted in alternatives:
            return value
    if "SpiffeId" in alternatives:
        from mesh_identity import SpiffeId

        return SpiffeId.parse("spiffe://cluster.local/ns/a/sa/b")
    return _Any()


def make(known: Known, values: Mapping[str, object]) -> object:
    built = known.kind(**values)
    # A NamedTuple is checked by the class or the server that takes it.
    return with_checked_fields(built) if hasattr(built, "_fields") else built


@pytest.mark.parametrize(("known", "field", "wrong"), CASES)
def test_a_value_of_another_type_is_converted_or_refused(
    known: Known, field: str, wrong: object
) -> None:
    given = example(known)
    make(known, given)  # the others are right
    built, refusal = None, ""
    try:
        built = make(known, {**given, field: wrong})
    except Exception as error:  # noqa: BLE001 - each package has its own for values
        refusal = str(error)
    if built is None:
        assert field in refusal
        return
    value = getattr(built, field)
    if "tuple[Path" in known.fields[field]:
        assert all(isinstance(each, Path) for each in value)
    else:
        assert isinstance(value, Path), f"{value!r} is taken"
        assert str(value) == wrong


def test_the_roots_that_are_named_by_a_text_are_those_that_are_trusted() -> None:
    from certclient import SYSTEM, IstioCaConfig

    named = IstioCaConfig(address="ca.example:15012", root_certificate="root.pem")  # type: ignore[arg-type]
    assert named.root_certificate == Path("root.pem")
    assert named.files == (Path("root.pem"),)
    machines = IstioCaConfig(address="ca.example:15012", root_certificate=SYSTEM)
    assert isinstance(machines.root_certificate, Enum)
    with pytest.raises(TypeError, match="root_certificate"):
        IstioCaConfig(address="ca.example:15012", root_certificate=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["nohost", "", "https://ca.example:15012", "ca:", ":1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    from certclient import InvalidConfig, IstioCaConfig

    with pytest.raises(InvalidConfig, match="HOST:PORT"):
        IstioCaConfig(address=address, root_certificate=None)
