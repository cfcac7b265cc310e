"""Wasm filters in ECDS resources, written and read by Envoy's own messages."""

from collections.abc import Callable
from pathlib import Path

import pytest
from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
from envoy.extensions.filters.http.lua.v3.lua_pb2 import Lua
from envoy.extensions.filters.http.rbac.v3.rbac_pb2 import RBAC as HttpRbac  # noqa: N811
from envoy.extensions.filters.http.wasm.v3.wasm_pb2 import Wasm as HttpWasm
from envoy.extensions.filters.network.rbac.v3.rbac_pb2 import RBAC as NetworkRbac  # noqa: N811
from envoy.extensions.filters.network.wasm.v3.wasm_pb2 import Wasm as NetworkWasm
from envoy.extensions.wasm.v3.wasm_pb2 import FAIL_OPEN
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from udpa.type.v1.typed_struct_pb2 import TypedStruct as UdpaTypedStruct
from xds.type.v3.typed_struct_pb2 import TypedStruct

from mesh_protowire import WireError
from wasm_modules.rewriting._fallback import FilterKind
from wasm_modules.rewriting._filter import read_filter

URL = "https://host.example/a.wasm"
SECRET = "ISTIO_META_WASM_IMAGE_PULL_SECRET"
ENVIRONMENT = {SECRET: "canary", "ISTIO_META_X": "y", "MODE": "fast"}
FILE = Path("/cache/a.wasm")


def packed(message: Message) -> Any:
    found = Any()
    found.Pack(message)
    return found


def resource(config: Message, name: str = "my-filter") -> bytes:
    extension = TypedExtensionConfig(name=name)
    extension.typed_config.Pack(config)
    return packed(extension).SerializeToString()


def filled(wasm: Message, *, fail_open: bool = False) -> Message:
    config = wasm.config  # type: ignore[attr-defined]
    config.name, config.root_id, config.fail_open = "plugin", "root", fail_open
    config.vm_config.runtime = "envoy.wasm.runtime.v8"
    remote = config.vm_config.code.remote
    remote.http_uri.uri, remote.http_uri.cluster = URL, "_"
    remote.http_uri.timeout.seconds, remote.http_uri.timeout.nanos = 7, 500_000_000
    remote.sha256 = "ab" * 32
    config.vm_config.environment_variables.key_values.update(ENVIRONMENT)
    config.vm_config.environment_variables.host_env_keys.append("HOME")
    config.configuration.Pack(Lua())
    return wasm


def as_struct(wasm: Message, form: type[Message], *, proto_names: bool) -> Message:
    values = Struct()
    values.update(json_format.MessageToDict(wasm, preserving_proto_field_name=proto_names))
    url = f"type.googleapis.com/{wasm.DESCRIPTOR.full_name}"
    return form(type_url=url, value=values)


def typed_config(body: bytes) -> Any:
    extension = TypedExtensionConfig()
    assert Any.FromString(body).Unpack(extension)
    assert extension.name == "my-filter"
    config: Any = extension.typed_config
    return config


def wasm_of(body: bytes, kind: type[Message]) -> Message:
    config, wasm = typed_config(body), kind()
    if config.Unpack(wasm):
        return wasm
    for form in (TypedStruct(), UdpaTypedStruct()):
        if config.Unpack(form):
            assert form.type_url == f"type.googleapis.com/{wasm.DESCRIPTOR.full_name}"
            return json_format.ParseDict(json_format.MessageToDict(form.value), wasm)
    raise AssertionError(config.type_url)


FORMS: dict[str, Callable[[Message], Message]] = {
    "message": lambda wasm: wasm,
    "xds struct": lambda wasm: as_struct(wasm, TypedStruct, proto_names=False),
    "udpa struct": lambda wasm: as_struct(wasm, UdpaTypedStruct, proto_names=True),
}


@pytest.mark.parametrize("kind", [HttpWasm, NetworkWasm], ids=["http", "network"])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_remote_module_becomes_a_file_and_all_else_stays(form: str, kind: type[Message]) -> None:
    wasm = filled(kind())
    found = read_filter(resource(FORMS[form](wasm)))
    assert found is not None
    assert found.name == "my-filter"
    assert found.settings.remote is not None
    assert found.settings.remote.url == URL
    assert found.settings.remote.checksum == "ab" * 32
    assert found.settings.remote.timeout_s == 7.5
    assert found.settings.environment == ENVIRONMENT
    assert not found.settings.fail_open
    changed = found.with_local_module(FILE)
    vm = wasm.config.vm_config  # type: ignore[attr-defined]
    vm.code.Clear()
    vm.code.local.filename = str(FILE)
    for name in (SECRET, "ISTIO_META_X"):
        del vm.environment_variables.key_values[name]
    assert wasm_of(changed, kind) == wasm
    assert b"canary" not in changed
    assert b"ISTIO_META" not in changed


def test_fields_that_are_not_known_here_stay() -> None:
    wasm = filled(HttpWasm())
    config = TypedExtensionConfig(name="my-filter")
    unknown = b"\xfa\x3f\x03new"  # field 1023
    config.typed_config.Pack(wasm)
    config.typed_config.value += unknown
    found = read_filter(packed(config).SerializeToString())
    assert found is not None
    assert typed_config(found.with_local_module(FILE)).value.endswith(unknown)


@pytest.mark.parametrize("fail_open", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_fallback_lets_all_pass_or_nothing(form: str, *, fail_open: bool) -> None:
    found = read_filter(resource(FORMS[form](filled(HttpWasm(), fail_open=fail_open))))
    assert found is not None
    rbac = HttpRbac()
    assert typed_config(found.with_fallback()).Unpack(rbac)
    # Without rules nothing is enforced; with an ALLOW for no policy all is denied.
    assert rbac.HasField("rules") is not fail_open
    assert not rbac.rules.policies

    found = read_filter(resource(FORMS[form](filled(NetworkWasm(), fail_open=fail_open))))
    assert found is not None
    network = NetworkRbac()
    assert typed_config(found.with_fallback()).Unpack(network)
    assert network.HasField("rules") is not fail_open
    assert network.stat_prefix


@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_newer_failure_policy_counts_too(form: str) -> None:
    wasm = HttpWasm()
    filled(wasm)
    wasm.config.failure_policy = FAIL_OPEN
    found = read_filter(resource(FORMS[form](wasm)))
    assert found is not None
    assert found.settings.fail_open


@pytest.mark.parametrize("form", sorted(FORMS))
def test_settings_for_the_agent_never_reach_envoy_with_a_local_module_either(form: str) -> None:
    wasm = filled(HttpWasm())
    vm = wasm.config.vm_config  # type: ignore[attr-defined]
    vm.code.Clear()
    vm.code.local.inline_string = "envoy.wasm.stats"
    body = resource(FORMS[form](wasm))
    found = read_filter(body)
    assert found is not None
    assert found.settings.remote is None
    changed = found.without_control_settings()
    assert b"canary" not in changed
    vm.environment_variables.key_values.clear()
    vm.environment_variables.key_values["MODE"] = "fast"
    assert wasm_of(changed, HttpWasm) == wasm
    again = read_filter(changed)
    assert again is not None
    assert again.without_control_settings() is changed


def test_other_resources_have_no_wasm_filter() -> None:
    assert read_filter(resource(Lua())) is None
    assert read_filter(packed(filled(HttpWasm())).SerializeToString()) is None
    assert read_filter(resource(as_struct(Lua(), TypedStruct, proto_names=True))) is None
    assert read_filter(b"") is None


def test_a_name_in_the_configuration_makes_no_wasm_filter() -> None:
    name = "envoy.extensions.filters.http.wasm.v3.Wasm"
    assert read_filter(resource(Lua(), name=name)) is None


@given(st.binary(max_size=100), st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_resource_is_a_wire_error_or_none(more: bytes, place: int, byte: int) -> None:
    good = bytearray(resource(filled(HttpWasm())) + more)
    good[place % len(good)] = byte
    try:
        found = read_filter(bytes(good))
        if found is not None:
            found.with_local_module(FILE)
            found.with_fallback()
    except WireError:
        return


def test_both_kinds_are_known() -> None:
    kinds = {each.value for each in FilterKind}
    assert kinds == {HttpWasm.DESCRIPTOR.full_name, NetworkWasm.DESCRIPTOR.full_name}
