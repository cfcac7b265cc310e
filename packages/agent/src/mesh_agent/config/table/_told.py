"""Tells of settings that have no effect, and refuses those that must not be passed over.

A variable or flag that is set, and does nothing, is a line in the log that names it and the reason.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from envoy_supervisor import JSON
from istio_settings import Told

if TYPE_CHECKING:
    from istio_settings import MeshFile, ProxyConfig

_OURS = ("ISTIO_", "ISTIOD_", "PILOT_", "MESH_AGENT_")
_PREFIXES = ("ISTIO_META_", "ISTIO_METAJSON_", "CA_HEADER_", "XDS_HEADER_")
_SERVICE_HOST = "_SERVICE_HOST"
_NEAREST = 0.8


def variables_told(environ: Mapping[str, str]) -> tuple[tuple[Told, ...], tuple[str, ...]]:
    """Return the variables without effect, and a problem for each value that is refused."""
    from mesh_agent.config.table._setting import REFUSED, TOLD
    from mesh_agent.config.table._variables import VARIABLES

    told: list[Told] = []
    problems = []
    known = {setting.name for setting in VARIABLES}
    for setting in VARIABLES:
        value = environ.get(setting.name, "")
        if setting.fate not in (TOLD, REFUSED) or setting.is_silent(value):
            continue
        reason = setting.reason(value)
        if setting.fate == REFUSED:
            problems.append(f"{setting.name}: {value!r} {reason}")
        else:
            told.append(Told(setting.name, reason, quiet=setting.quiet))
    unknown = [
        name
        for name in sorted(environ)
        if name.startswith(_OURS) and name not in known and not name.startswith(_PREFIXES)
    ]
    if unknown := _without_service_links(unknown, environ):
        told.append(Told(", ".join(unknown), _unknown("variable", unknown, known)))
    return tuple(told), tuple(problems)


def flags_told(passed: Sequence[tuple[str, str]]) -> tuple[Told, ...]:
    """Return the flags without effect, of flags and their values."""
    if not passed:
        return ()
    from mesh_agent.config.table._flags import FLAGS

    table = {setting.name: setting for setting in FLAGS}
    told = []
    unknown = []
    for name, value in passed:
        if (setting := table.get(name)) is None:
            unknown.append(name)
        elif not setting.is_silent(value or "true"):
            told.append(Told(name, setting.reason(value)))
    if unknown := list(dict.fromkeys(unknown)):
        told.append(Told(", ".join(unknown), _unknown("flag", unknown, set(table))))
    return tuple(told)


def fields_told(proxy: "ProxyConfig") -> Iterator[Told]:
    """Yield the fields of the proxy configuration that have no effect."""
    from mesh_agent.config.table._fields import WITHOUT_EFFECT

    for field in WITHOUT_EFFECT:
        value = proxy.merged.get(field.name)
        if value is not None and not field.is_silent(_text(value)):
            yield Told(str(proxy.place(field.name)), field.why)


def mesh_fields_told(mesh: "MeshFile", trust_domain: str) -> Iterator[Told]:
    """Yield the fields of a mesh config file that MeshConfig does not have, or that contradict."""
    if not mesh.fields:
        return
    from mesh_agent.config.table._fields import MESH_FIELDS

    for name in mesh.fields.keys() - MESH_FIELDS:
        yield Told(mesh.place(name), _unknown("field of MeshConfig", [name], MESH_FIELDS))
    given = mesh.fields.get("trustDomain", trust_domain)
    if given != trust_domain:
        reason = f"the agent's trust domain is {trust_domain}; TRUST_DOMAIN sets it"
        yield Told(mesh.place("trustDomain"), reason)


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _unknown(kind: str, names: Sequence[str], known: Collection[str]) -> str:
    import difflib  # only a mistake needs it

    near = [
        close for name in names for close in difflib.get_close_matches(name, known, 1, _NEAREST)
    ]
    meant = f"; did you mean {', '.join(near)}?" if near else ""
    return f"the agent knows no such {kind}{meant}"


def _without_service_links(names: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Leave out the variables that Kubernetes makes for each service of the pod's namespace.

    Source: https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    """
    services = [
        re.escape(name.removesuffix(_SERVICE_HOST))
        for name in environ
        if name.endswith(_SERVICE_HOST)
    ]
    if not services:
        return list(names)
    link = re.compile(rf"(?:{'|'.join(services)})_(?:SERVICE_(?:HOST|PORT\w*)|PORT(?:_\d+_\w+)?)")
    return [name for name in names if not link.fullmatch(name)]
