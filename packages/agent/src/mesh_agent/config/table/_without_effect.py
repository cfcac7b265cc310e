"""Tells of settings that have no effect, and refuses those that must not be passed over.

A variable or flag that is set, and does nothing, is a line in the log that names it and the reason.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import istio_settings
from envoy_supervisor import JSON
from istio_settings import SettingWithoutEffect, unknown_name

if TYPE_CHECKING:
    from istio_settings import MeshFile, Program, ProxyConfig

_NAME = "the agent"
_OURS = ("ISTIO_", "ISTIOD_", "PILOT_", "MESH_AGENT_")
_FREE = ("ISTIO_META_", "ISTIO_METAJSON_", "CA_HEADER_", "XDS_HEADER_")


def variables_without_effect(
    environ: Mapping[str, str],
) -> tuple[tuple[SettingWithoutEffect, ...], tuple[str, ...]]:
    """Return the variables without effect, and a problem for each value that is refused."""
    from mesh_agent.config.table._variables import VARIABLES

    return istio_settings.variables_without_effect(VARIABLES, environ, _program())


def flags_without_effect(passed: Sequence[tuple[str, str]]) -> tuple[SettingWithoutEffect, ...]:
    """Return the flags without effect, of flags and their values."""
    if not passed:
        return ()
    from mesh_agent.config.table._flags import FLAGS

    found, _refused = istio_settings.flags_without_effect(FLAGS, passed, _program())
    return found


def fields_without_effect(proxy: "ProxyConfig") -> Iterator[SettingWithoutEffect]:
    """Yield the fields of the proxy configuration that have no effect."""
    from mesh_agent.config.table._fields import WITHOUT_EFFECT

    for field in WITHOUT_EFFECT:
        value = proxy.merged.get(field.name)
        if value is not None and not field.is_silent(_text(value)):
            yield SettingWithoutEffect(str(proxy.place(field.name)), field.why)


def mesh_fields_without_effect(
    mesh: "MeshFile", trust_domain: str
) -> Iterator[SettingWithoutEffect]:
    """Yield the fields of a mesh config file that MeshConfig does not have, or that contradict."""
    if not mesh.fields:
        return
    from mesh_agent.config.table._fields import MESH_FIELDS

    for name in mesh.fields.keys() - MESH_FIELDS:
        reason = unknown_name("field of MeshConfig", [name], MESH_FIELDS, program=_NAME)
        yield SettingWithoutEffect(mesh.place(name), reason)
    given = mesh.fields.get("trustDomain", trust_domain)
    if given != trust_domain:
        reason = f"the agent's trust domain is {trust_domain}; TRUST_DOMAIN sets it"
        yield SettingWithoutEffect(mesh.place("trustDomain"), reason)


def _program() -> "Program":
    return istio_settings.Program(_NAME, variables=_OURS, free=_FREE)


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value)
