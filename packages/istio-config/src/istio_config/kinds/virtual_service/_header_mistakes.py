"""The rules of operations on headers, and of names of headers in matches."""

from collections.abc import Iterator, Mapping

from istio_config.kinds.checks import is_header_name
from istio_config.kinds.formats import header_value_mistake
from istio_config.kinds.virtual_service._actions import HttpRewrite
from istio_config.kinds.virtual_service._destinations import Headers
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

AUTHORITY = ":authority"
_NAME = "is not the name of a header; it may have letters, digits and !#$%&'*+.^_`|~-"


def names_authority(name: str) -> bool:
    """Return whether an operation on this header changes the request's authority."""
    return name.lower() in (AUTHORITY, "host")


def header_name_mistake(name: str) -> str | None:
    """Return what is wrong with a header's name, or None; pseudo-headers are not looked at."""
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
                place = (*path, side, operation, name)
                if (wrong := _name_mistake(name, authority=side == "request")) is not None:
                    yield place, wrong
                if (wrong := header_value_mistake(value)) is not None:
                    yield place, wrong
        for index, name in enumerate(operations.remove):
            if (wrong := _name_mistake(name, authority=False)) is not None:
                yield (*path, side, "remove", index), wrong


def authority_mistakes(
    rewrite: HttpRewrite | None, headers: Headers | None, path: FieldPath
) -> Iterator[Finding]:
    """Yield the second and every further place that sets the authority of one request."""
    taken = "rewrite.authority" if rewrite is not None and rewrite.authority else None
    if headers is None or headers.request is None:
        return
    for operation, values in (("set", headers.request.set), ("add", headers.request.add)):
        for name in filter(names_authority, values):
            if taken is not None:
                yield (
                    (*path, "headers", "request", operation, name),
                    f"sets the authority, which {taken} sets too: keep one",
                )
            taken = taken or f"headers.request.{operation}.{name}"


def _name_mistake(name: str, *, authority: bool) -> str | None:
    if authority and names_authority(name):
        return None
    if name.startswith(":") or name.lower() == "host":
        if authority:
            return f'"{name}" can\'t be changed; of the pseudo-headers only :authority can'
        return f'"{name}" can\'t be changed here'
    return header_name_mistake(name)
