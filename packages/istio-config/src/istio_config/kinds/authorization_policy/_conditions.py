"""Conditions (`when`): their keys, and what their values may be.

Source: Istio's API, security/v1, and its reference of authorization policy conditions.
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from istio_config.kinds.authorization_policy._values import (
    Values,
    address_mistakes,
    port_mistakes,
    service_account_mistakes,
    value_mistakes,
)
from istio_config.kinds.checks import is_header_name
from istio_config.kinds.fields import SpecFields
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class Attribute(Enum):
    """The attribute that a condition looks at."""

    SOURCE_IP = auto()
    REMOTE_IP = auto()
    NAMESPACE = auto()
    PRINCIPAL = auto()
    SERVICE_ACCOUNT = auto()
    TRUST_DOMAIN = auto()
    REQUEST_PRINCIPAL = auto()
    AUDIENCES = auto()
    PRESENTER = auto()
    CLAIM = auto()
    HEADER = auto()
    DESTINATION_IP = auto()
    DESTINATION_PORT = auto()
    SNI = auto()
    FILTER_METADATA = auto()


class ConditionKey(NamedTuple):
    """An attribute. names: a header; nested claims; or a filter and the key of its metadata."""

    attribute: Attribute
    names: tuple[str, ...] = ()


_PLAIN = {
    "source.ip": Attribute.SOURCE_IP,
    "remote.ip": Attribute.REMOTE_IP,
    "source.namespace": Attribute.NAMESPACE,
    "source.principal": Attribute.PRINCIPAL,
    "source.serviceAccount": Attribute.SERVICE_ACCOUNT,
    "source.trustDomain": Attribute.TRUST_DOMAIN,
    "request.auth.principal": Attribute.REQUEST_PRINCIPAL,
    "request.auth.audiences": Attribute.AUDIENCES,
    "request.auth.presenter": Attribute.PRESENTER,
    "destination.ip": Attribute.DESTINATION_IP,
    "destination.port": Attribute.DESTINATION_PORT,
    "connection.sni": Attribute.SNI,
}
_HEADERS, _CLAIMS, _FILTERS = "request.headers", "request.auth.claims", "experimental."
_BRACKETS = re.compile(r"(?:\[[^\[\]]+\])+")
KEYS = (*_PLAIN, f"{_HEADERS}[NAME]", f"{_CLAIMS}[NAME]", f"{_FILTERS}envoy.filters.FILTER[KEY]")
OF_CALLERS = frozenset(
    {
        Attribute.SOURCE_IP,
        Attribute.REMOTE_IP,
        Attribute.NAMESPACE,
        Attribute.PRINCIPAL,
        Attribute.SERVICE_ACCOUNT,
        Attribute.TRUST_DOMAIN,
        Attribute.REQUEST_PRINCIPAL,
        Attribute.AUDIENCES,
        Attribute.PRESENTER,
        Attribute.CLAIM,
        Attribute.HEADER,
    }
)
"""The attributes of callers and their requests; the others are those of the destination."""
OF_REQUESTS = frozenset(
    {
        Attribute.REQUEST_PRINCIPAL,
        Attribute.AUDIENCES,
        Attribute.PRESENTER,
        Attribute.CLAIM,
        Attribute.HEADER,
    }
)
"""The attributes that only HTTP requests have."""
OF_IDENTITIES = frozenset(
    {
        Attribute.NAMESPACE,
        Attribute.PRINCIPAL,
        Attribute.SERVICE_ACCOUNT,
        Attribute.TRUST_DOMAIN,
        Attribute.REQUEST_PRINCIPAL,
        Attribute.AUDIENCES,
        Attribute.PRESENTER,
        Attribute.CLAIM,
    }
)
"""The attributes that are not known yet when a provider is asked (CUSTOM)."""
ADDRESSES = frozenset({Attribute.SOURCE_IP, Attribute.REMOTE_IP, Attribute.DESTINATION_IP})


def parse_key(key: str) -> ConditionKey | None:
    """Read the `key` of a condition; None if it is malformed."""
    plain = _PLAIN.get(key)
    if plain is not None:
        return ConditionKey(plain)
    start, bracket, rest = key.partition("[")
    rest = bracket + rest
    if not _BRACKETS.fullmatch(rest):
        return None
    names = tuple(rest[1:-1].split("]["))
    if start == _CLAIMS:
        return ConditionKey(Attribute.CLAIM, names)
    if start == _HEADERS and len(names) == 1:
        name = names[0].removeprefix(":")
        return ConditionKey(Attribute.HEADER, names) if is_header_name(name) else None
    name = start.removeprefix(_FILTERS)
    if start.startswith(_FILTERS) and name.startswith("envoy.filters.") and len(names) == 1:
        return ConditionKey(Attribute.FILTER_METADATA, (name, names[0]))
    return None


class Condition(SpecFields, frozen=True):
    """A further condition, on an attribute of callers or requests."""

    key: str = ""
    values: Values = ()
    not_values: Values = ()


def condition_mistakes(condition: Condition, path: FieldPath, *, custom: bool) -> Iterator[Finding]:
    """Yield what is wrong with a condition; custom: of a rule that asks a provider."""
    key = parse_key(condition.key)
    if not condition.key:
        yield (*path, "key"), f"is missing; expected one of {', '.join(KEYS)}"
    elif key is None:
        yield (
            (*path, "key"),
            f'"{condition.key}" is not an attribute; expected one of {", ".join(KEYS)}',
        )
    if not condition.values and not condition.not_values:
        yield path, "has no values and no notValues"
    for name, values in (("values", condition.values), ("notValues", condition.not_values)):
        here = (*path, name)
        yield from value_mistakes(values, here)
        if key is None:
            continue
        if key.attribute in ADDRESSES:
            yield from address_mistakes(values, here)
        elif key.attribute is Attribute.DESTINATION_PORT:
            yield from port_mistakes(values, here)
        elif key.attribute is Attribute.SERVICE_ACCOUNT:
            yield from service_account_mistakes(values, here)
    if custom and key is not None and key.attribute in OF_IDENTITIES:
        yield (
            (*path, "key"),
            "a CUSTOM rule can't look at it: the provider is asked before it is known",
        )
