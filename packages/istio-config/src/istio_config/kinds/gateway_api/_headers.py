"""Matches and changes of headers, which HTTPRoutes and GRPCRoutes share.

Source: the Gateway API, v1.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from istio_config.kinds._regular_expressions import Expression
from istio_config.kinds.checks import has_control_characters
from istio_config.kinds.fields import SpecFields, Text
from istio_config.kinds.gateway_api._names import wrong_header_name
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

MOST = 16
_LONGEST_VALUE = 4096


class MatchType(StrEnum):
    """How a value is compared."""

    EXACT = "Exact"
    REGULAR_EXPRESSION = "RegularExpression"


class ValueMatch(SpecFields, frozen=True):
    """A condition on a header or on a query parameter."""

    name: Text
    value: Text
    type: MatchType = MatchType.EXACT


class Header(SpecFields, frozen=True):
    """A header with a value."""

    name: Text
    value: str


class HeaderFilter(SpecFields, frozen=True):
    """Changes of headers."""

    set: tuple[Header, ...] = ()
    add: tuple[Header, ...] = ()
    remove: tuple[str, ...] = ()


def value_match_mistakes(matches: Sequence[ValueMatch], path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with the conditions on headers or on query parameters."""
    if len(matches) > MOST:
        yield path, f"has {len(matches)} entries; {MOST} are allowed"
    names: set[str] = set()
    for index, each in enumerate(matches):
        if text := wrong_header_name(each.name):
            yield (*path, index, "name"), text
        if len(each.value) > _LONGEST_VALUE:
            yield (*path, index, "value"), f"is longer than {_LONGEST_VALUE} characters"
        if each.name in names:
            yield (*path, index, "name"), f'the name "{each.name}" is given twice'
        names.add(each.name)


def value_match_expressions(matches: Sequence[ValueMatch], path: FieldPath) -> Iterator[Expression]:
    """Yield the regular expressions in conditions."""
    for index, each in enumerate(matches):
        if each.type is MatchType.REGULAR_EXPRESSION:
            yield Expression((*path, index, "value"), each.value)


def header_filter_mistakes(changes: HeaderFilter, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with changes of headers."""
    for field, headers in (("set", changes.set), ("add", changes.add)):
        if len(headers) > MOST:
            yield (*path, field), f"has {len(headers)} entries; {MOST} are allowed"
        names: set[str] = set()
        for index, each in enumerate(headers):
            yield from _name_mistakes(each.name, names, (*path, field, index, "name"))
            if not each.value:
                yield (*path, field, index, "value"), "must not be empty"
            elif len(each.value) > _LONGEST_VALUE:
                yield (
                    (*path, field, index, "value"),
                    f"is longer than {_LONGEST_VALUE} characters",
                )
            elif has_control_characters(each.value):
                yield (*path, field, index, "value"), "must be one line of text"
    removed: set[str] = set()
    for index, name in enumerate(changes.remove):
        yield from _name_mistakes(name, removed, (*path, "remove", index))


def _name_mistakes(name: str, names: set[str], path: FieldPath) -> Iterator[Finding]:
    if text := wrong_header_name(name):
        yield path, text
    if name in names:
        yield path, f'the name "{name}" is given twice'
    names.add(name)
