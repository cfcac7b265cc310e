"""The name table as plain data: the entry of each host, and the JSON form."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from mesh_dnsproxy._errors import NameTableError

KUBERNETES = "Kubernetes"
"""The registry whose hosts are also known by short names."""


class Port(NamedTuple):
    """A port of a service. protocol: as Istio names it: HTTP, HTTPS, GRPC, TCP, UDP, TLS, ..."""

    number: int
    name: str = ""
    protocol: str = ""


class NameEntry(NamedTuple):
    """The entry of a host. ports: empty when they are not known."""

    addresses: tuple[str, ...]
    registry: str = ""
    short_name: str = ""
    namespace: str = ""
    alternate_hosts: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()


class TableSource(Protocol):
    """The source of a table: any object with the `items` of a mapping."""

    def items(self) -> Iterable[tuple[str, NameEntry]]:
        """Return the hosts (a wildcard begins with `*.`) and their entries.

        May be lazy: it is read in slices, so that queries don't wait for a large table. Raises
        `NameTableError`, from the iterator too, if it cannot be read.
        """


class NameTable(NamedTuple):
    """All hosts that a workload may know, by name."""

    entries: Mapping[str, NameEntry]

    def items(self) -> Iterable[tuple[str, NameEntry]]:
        """Make the table a `TableSource`."""
        return self.entries.items()

    @classmethod
    def from_json(cls, text: str) -> "NameTable":
        """Read `{"table": {"HOST": {"ips": [...], "registry": ...}}}`; raises `NameTableError`."""
        return cls(dict(JsonNameTable(text).items()))


class JsonNameTable(NamedTuple):
    """A table in its JSON form, read entry by entry: a `TableSource`."""

    text: str

    def items(self) -> Iterator[tuple[str, NameEntry]]:
        """Read on from entry to entry; raises `NameTableError` with line and column."""
        try:
            yield from _entries(self.text)
        except json.JSONDecodeError as error:
            raise NameTableError(
                f"line {error.lineno} column {error.colno}: {error.msg}"
            ) from error
        except RecursionError as error:
            raise NameTableError("the values are nested too deeply") from error


_decode = json.JSONDecoder().raw_decode
_KEY = re.compile(r'[ \t\n\r]*("(?:[^"\\\x00-\x1f]|\\.)*")[ \t\n\r]*:[ \t\n\r]*')
_AFTER_VALUE = re.compile(r"[ \t\n\r]*([,}])")
_SPACE = re.compile(r"[ \t\n\r]*")


def _entries(text: str) -> Iterator[tuple[str, NameEntry]]:
    """Read the two outer objects; each entry is read by the json module."""
    found = False
    position = _begin(text, 0)
    more, position = _first(text, position)
    while more:
        key, position = _key(text, position)
        if key != "table":
            raise NameTableError(f'there is {key!r}; a name table is {{"table": {{...}}}}')
        found = True
        inner, position = _first(text, _begin(text, position))
        while inner:
            host, position = _key(text, position)
            value, position = _decode(text, position)
            yield host, _entry(host, value)
            inner, position = _after_value(text, position)
        more, position = _after_value(text, position)
    end = _skip(text, position)
    if end != len(text):
        raise json.JSONDecodeError("there is more behind the table", text, end)
    if not found:
        raise NameTableError('there is no "table"; a name table is {"table": {...}}')


def _skip(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return position if space is None else space.end()


def _begin(text: str, position: int) -> int:
    position = _skip(text, position)
    if not text.startswith("{", position):
        raise json.JSONDecodeError("there should be '{'", text, position)
    return position + 1


def _first(text: str, position: int) -> tuple[bool, int]:
    """Return whether an object has a first key, and the position of that, or after the object."""
    position = _skip(text, position)
    return (False, position + 1) if text.startswith("}", position) else (True, position)


def _key(text: str, position: int) -> tuple[str, int]:
    found = _KEY.match(text, position)
    if found is None:
        raise json.JSONDecodeError("there should be a name in quotes and a colon", text, position)
    quoted = found[1]
    return json.loads(quoted) if "\\" in quoted else quoted[1:-1], found.end()


def _after_value(text: str, position: int) -> tuple[bool, int]:
    found = _AFTER_VALUE.match(text, position)
    if found is None:
        raise json.JSONDecodeError("there should be ',' or '}'", text, _skip(text, position))
    return found[1] == ",", found.end()


_FIELDS = frozenset({"ips", "registry", "shortname", "namespace", "alt_hosts", "altHosts", "ports"})


def _entry(host: str, value: object) -> NameEntry:
    if not isinstance(value, dict):
        raise NameTableError(f"{host!r} is {value!r}; it should be an object with ips")
    if not value.keys() <= _FIELDS:
        unknown = min(value.keys() - _FIELDS)
        raise NameTableError(
            f"{host!r} has {unknown!r}; an entry has ips, registry, shortname,"
            " namespace, alt_hosts and ports"
        )
    return NameEntry(
        _texts(host, value, "ips"),
        _text(host, value, "registry"),
        _text(host, value, "shortname"),
        _text(host, value, "namespace"),
        _texts(host, value, "alt_hosts") + _texts(host, value, "altHosts"),
        _ports(host, value.get("ports")),
    )


def _text(host: str, value: Mapping[str, object], field: str) -> str:
    found = value.get(field)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise NameTableError(f"{host!r}: {field} is {found!r}; it should be a text")
    return found


def _texts(host: str, value: Mapping[str, object], field: str) -> tuple[str, ...]:
    found = value.get(field)
    if found is None:
        return ()
    if isinstance(found, list):
        texts = tuple(each for each in found if isinstance(each, str))
        if len(texts) == len(found):
            return texts
    raise NameTableError(f"{host!r}: {field} is {found!r}; it should be a list of texts")


def _ports(host: str, found: object) -> tuple[Port, ...]:
    if found is None:
        return ()
    if not isinstance(found, list):
        raise NameTableError(f"{host!r}: ports is {found!r}; it should be a list")
    return tuple(_port(host, each) for each in found)


def _port(host: str, found: object) -> Port:
    if not isinstance(found, dict) or found.keys() - {"number", "name", "protocol"}:
        raise NameTableError(
            f"{host!r}: a port is {found!r}; it should be an object of number, name and protocol"
        )
    number = found.get("number")
    if type(number) is not int or not 0 < number < 1 << 16:
        raise NameTableError(f"{host!r}: a port's number is {number!r}; it should be 1 to 65535")
    return Port(number, _text(host, found, "name"), _text(host, found, "protocol"))
