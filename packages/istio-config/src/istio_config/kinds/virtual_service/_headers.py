"""Changes of the headers of requests and responses.

Source: Istio's API, networking/v1; Envoy's header manipulation refuses pseudo-headers and Host.
"""

from collections.abc import Iterator, Mapping

import msgspec

from istio_config.kinds.checks import is_header_name
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.formats import header_value_mistake
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class HeaderOperations(SpecFields, frozen=True):
    """Headers that are set, added and removed."""

    set: dict[str, str] = msgspec.field(default_factory=dict)
    add: dict[str, str] = msgspec.field(default_factory=dict)
    remove: tuple[str, ...] = ()


class Headers(SpecFields, frozen=True):
    """Changes of the headers of requests and of responses."""

    request: HeaderOperations | None = None
    response: HeaderOperations | None = None


AUTHORITY = ":authority"
_NAME = "is not the name of a header; it may have letters, digits and !#$%&'*+.^_`|~-"


def names_authority(name: str) -> bool:
    """Return whether an operation on this header changes the request's authority."""
    return name.lower() in (AUTHORITY, "host")


def header_name_mistake(name: str) -> str | None:
    """Return what is wrong with a header's name, or None; no pseudo-header passes."""
    return None if is_header_name(name) else f'"{name}" {_NAME}'


def header_mistakes(headers: Headers | None, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with operations on headers."""
    if headers is None:
        return
    for side, operations in (("request", headers.request), ("response", headers.response)):
        if operations is None:
            continue
        changes: tuple[tuple[str, Mapping[str, str]], ...] = (
            ("set", operations.set),
            ("add", operations.add),
        )
        for operation, values in changes:
            for name, value in values.items():
                here = (*path, side, operation, name)
                if (wrong := _name_mistake(name, authority=side == "request")) is not None:
                    yield here, wrong
                if (wrong := header_value_mistake(value)) is not None:
                    yield here, wrong
        for index, name in enumerate(operations.remove):
            if (wrong := _name_mistake(name, authority=False)) is not None:
                yield (*path, side, "remove", index), wrong


def _name_mistake(name: str, *, authority: bool) -> str | None:
    if authority and names_authority(name):
        return None
    if name.startswith(":") or name.lower() == "host":
        if authority:
            return f'"{name}" can\'t be changed; of the pseudo-headers only :authority can'
        return f'"{name}" can\'t be changed here'
    return header_name_mistake(name)
