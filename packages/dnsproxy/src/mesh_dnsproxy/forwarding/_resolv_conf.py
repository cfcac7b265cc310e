"""Reads resolv.conf(5), more tolerantly than the resolvers of the C libraries.

A line that can't be read is left out, and reported.
"""

import re
import socket
from typing import NamedTuple

DNS_PORT = 53
_BRACKETED = re.compile(r"\[(?P<host>[^\]]+)\](?::(?P<port>\d{1,5}))?")
_HASHED = re.compile(r"(?P<host>[^#]+)#(?P<port>\d{1,5})")


class Upstream(NamedTuple):
    """An upstream resolver. host: an address; an IPv6 one may end in `%interface`."""

    host: str
    port: int = DNS_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ResolvConf(NamedTuple):
    """The content of the file. search: without dots at the end. problems: a sentence for each."""

    nameservers: tuple[Upstream, ...] = ()
    search: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def parse_resolv_conf(text: str) -> ResolvConf:
    """Read a resolv.conf; any text has a result.

    Of `domain` and `search` the last one counts. Options are for the resolver in the application,
    which reads the file itself: they are only shown.
    """
    servers: dict[Upstream, None] = {}
    search: tuple[str, ...] = ()
    options: list[str] = []
    problems: list[str] = []
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text.lstrip("\ufeff")), 1):
        words = _words(line)
        match words:
            case []:
                pass
            case ["nameserver"]:
                problems.append(f"line {number}: nameserver without an address")
            case ["nameserver", address, *_]:
                try:
                    servers[parse_upstream(address)] = None
                except ValueError as error:
                    problems.append(f"line {number}: {error}")
            case ["search" | "domain" as keyword, *domains]:
                wanted = domains if keyword == "search" else domains[:1]
                search = tuple(filter(None, (domain.strip(".").lower() for domain in wanted)))
            case ["options", *given]:
                options += given
            case ["sortlist" | "lookup" | "family", *_]:
                pass  # for the application's resolver
            case _:
                problems.append(f"line {number}: {words[0]!r} is no keyword")
    return ResolvConf(tuple(servers), search, tuple(options), tuple(problems))


def _words(line: str) -> list[str]:
    words = []
    for word in line.replace("\0", " ").split():
        if word[0] in "#;":
            break
        words.append(word)
    return words


def parse_upstream(text: str) -> Upstream:
    """Read `ADDRESS`, `ADDRESS:PORT` for IPv4, `[ADDRESS]:PORT`, or `ADDRESS#PORT`.

    Raises ValueError for anything else; names are not looked up.
    """
    host, port = text, DNS_PORT
    if found := _BRACKETED.fullmatch(text) or _HASHED.fullmatch(text):
        host, port = found["host"], int(found["port"] or DNS_PORT)
    elif text.count(":") == 1:
        host, _, digits = text.partition(":")
        if not digits.isdecimal():
            raise ValueError(f"{text!r} is no address of a server")
        port = int(digits)
    if not 0 < port < 1 << 16 or not _is_address(host):
        raise ValueError(f"{text!r} is no address of a server")
    return Upstream(host, port)


def _is_address(host: str) -> bool:
    address, percent, zone = host.partition("%")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.inet_pton(family, address)
    except (OSError, ValueError):
        return False
    return not percent or (family == socket.AF_INET6 and bool(zone))
