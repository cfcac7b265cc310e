"""Istio's flags and variables → what is to be redirected, and what is to be done."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import AddressValueError, IPv4Network, IPv6Network, NetmaskValueError, ip_network

from mesh_traffic_capture._errors import InvalidCapture
from mesh_traffic_capture._value import value
from mesh_traffic_capture.config._capture_config import (
    ALL,
    MOST_ITEMS,
    All,
    CaptureConfig,
    DnsCapture,
    IPNetwork,
    Mode,
    is_port,
)
from mesh_traffic_capture.config._host_facts import HostFacts
from mesh_traffic_capture.config._istio_flags import ISTIO_FLAGS, FlagUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final, TypeVar

    _T = TypeVar("_T")

_BY_NAME: Final = {flag.name: flag for flag in ISTIO_FLAGS}
_DEFAULT_ID: Final = 1337
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False", ""})
"""The words of Go's strconv.ParseBool, which Istio's tool reads its switches by."""
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LOOPBACK: Final = "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR"
_GROUPS: Final = "ISTIO_OUTBOUND_OWNER_GROUPS"
_EXCLUDED_GROUPS: Final = "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE"
_MOST_TEXT: Final = 1 << 20


class Action(StrEnum):
    """A thing to do with the rules."""

    APPLY = "apply"
    CLEAN = "clean"
    NOTHING = "nothing"


@value
class IstioSettings:
    """All that flags and variables ask for."""

    config: CaptureConfig
    action: Action
    validate: bool
    """Whether connections are to be made through the rules, afterwards."""
    validation_port: int
    validation_timeout_s: float
    dry_run: bool
    backend: str
    """`nft`, `iptables-nft` or `iptables-legacy` if the user insists on it; else empty."""
    network_namespace: str
    """A path, or empty for the one that the command runs in."""
    notes: tuple[str, ...]
    """What has no effect, or another one than with Istio's tool, a sentence each."""


def read_istio_settings(
    flags: Mapping[str, str], variables: Mapping[str, str], facts: HostFacts
) -> IstioSettings:
    """Return what flags (by name, without dashes) and variables ask for on this machine.

    A flag is stronger than its variables. Raises `InvalidCapture` with all that is wrong.
    """
    reader = _Reader(flags=flags, variables=variables, facts=facts)
    config = reader.config()
    backend = reader.backend()
    settings = IstioSettings(
        config=config,
        action=reader.action(),
        validate=reader.switch("run-validation"),
        validation_port=reader.port("iptables-probe-port"),
        validation_timeout_s=reader.duration_s("probe-timeout"),
        dry_run=reader.switch("dry-run"),
        backend=backend,
        network_namespace=reader.text("network-namespace"),
        notes=(*reader.notes(), *config.notes()),
    )
    mistakes = reader.mistakes or list(config.mistakes())
    if mistakes:
        raise InvalidCapture(tuple(dict.fromkeys(mistakes)))
    return settings


def read_switch(name: str, flags: Mapping[str, str], variables: Mapping[str, str]) -> bool:
    """Return one switch alone; raises `InvalidCapture` if it is neither true nor false."""
    reader = _Reader(flags=flags, variables=variables, facts=HostFacts())
    found = reader.switch(name)
    if reader.mistakes:
        raise InvalidCapture(tuple(reader.mistakes))
    return found


def read_text_flag(name: str, flags: Mapping[str, str], variables: Mapping[str, str]) -> str:
    """Return one flag alone, as it is written."""
    return _Reader(flags=flags, variables=variables, facts=HostFacts()).text(name)


class _Reader:
    """Reads values, and keeps what is wrong with them."""

    def __init__(
        self, *, flags: Mapping[str, str], variables: Mapping[str, str], facts: HostFacts
    ) -> None:
        self.flags = flags
        self.variables = variables
        self.facts = facts
        self.mistakes: list[str] = []
        self.found: list[str] = []

    def config(self) -> CaptureConfig:
        """Return what is to be redirected; senseless where there are mistakes."""
        uids = self._ids("proxy-uid", self.facts.users, "user") or self._proxy_user()
        gids = self._ids("proxy-gid", self.facts.groups, "group") or uids
        return CaptureConfig(
            mode=self._mode(),
            ipv6=self._ipv6(),
            outbound_port=self.port("envoy-port"),
            inbound_port=self.port("inbound-capture-port"),
            tunnel_port=self.port("inbound-tunnel-port"),
            proxy_uids=uids,
            proxy_gids=gids,
            inbound_ports=self._ports_or_all("istio-inbound-ports"),
            excluded_inbound_ports=self._ports("istio-local-exclude-ports"),
            outbound_ranges=self._ranges_or_all("istio-service-cidr"),
            excluded_outbound_ranges=self._ranges("istio-service-exclude-cidr"),
            outbound_ports=self._ports("istio-outbound-ports"),
            excluded_outbound_ports=self._ports("istio-local-outbound-ports-exclude"),
            excluded_interfaces=self._interfaces("istio-exclude-interfaces"),
            virtual_interfaces=self._interfaces("kube-virt-interfaces"),
            groups=self._included_groups(),
            excluded_groups=self._group_ids(_EXCLUDED_GROUPS),
            loopback=self._loopback(),
            dns=self._dns(),
            tproxy_mark=self._number("istio-inbound-tproxy-mark", 1337),
            tproxy_table=self._number("istio-inbound-tproxy-route-table", 133),
            drop_invalid=self.switch("drop-invalid"),
        )

    def action(self) -> Action:
        """Return what is to be done with the rules."""
        if self.switch("cleanup-only"):
            return Action.CLEAN
        return Action.NOTHING if self.switch("skip-rule-apply") else Action.APPLY

    def backend(self) -> str:
        """Return the backend that the user insists on, or nothing."""
        native, where, binary = (
            self.switch("native-nftables"),
            *self._value("force-iptables-binary"),
        )
        if binary not in {"", "nft", "legacy"}:
            self.mistakes.append(f"{where} is {binary!r}: it is nft, legacy, or empty")
            return ""
        if native and binary:
            self.mistakes.append(
                f"{where} is {binary!r} and native-nftables is true: only one of them can be used"
            )
        if native:
            return "nft"
        return f"iptables-{binary}" if binary else ""

    def notes(self) -> list[str]:
        """Return what has no effect."""
        found = list(self.found)
        for flag in ISTIO_FLAGS:
            where, value = self._value(flag.name)
            if flag.use is FlagUse.WITHOUT_EFFECT and value not in {"", flag.default}:
                found.append(f"{where} is {flag.meaning}")
        return found

    def text(self, name: str) -> str:
        """Return a flag's value as it is."""
        return self._value(name)[1]

    def switch(self, name: str) -> bool:
        """Return a switch's value."""
        where, value = self._value(name)
        if value not in _TRUE and value not in _FALSE:
            self.mistakes.append(f"{where} is {_short(value)}: it is true or false")
        return value in _TRUE

    def port(self, name: str) -> int:
        """Return a port."""
        where, value = self._value(name)
        return self._port(where, value, otherwise=int(_BY_NAME[name].default))

    def duration_s(self, name: str) -> float:
        """Return a duration such as 5s or 1m30s, in seconds."""
        where, value = self._value(name)
        length_s = _seconds(value)
        if length_s is None or not 0 < length_s <= 3600:
            self.mistakes.append(
                f"{where} is {_short(value)}: it is a duration such as 5s or 1m30s, an hour at most"
            )
            return 5.0
        return length_s

    def _value(self, name: str) -> tuple[str, str]:
        """Return where a flag's value comes from, and the value."""
        flag = _BY_NAME[name]
        if name in self.flags:
            return f"--{name}", self.flags[name].strip()[:_MOST_TEXT]
        for variable in flag.all_variables:
            if self.variables.get(variable, "") != "":
                return f"the variable {variable}", self.variables[variable].strip()[:_MOST_TEXT]
        return f"--{name}", flag.default

    def _items(self, where: str, value: str) -> list[str]:
        items = [item.strip() for item in value.split(",")]
        items = list(dict.fromkeys(item for item in items if item))
        if len(items) > MOST_ITEMS:
            self.mistakes.append(f"{where} has {len(items)} items: at most {MOST_ITEMS}")
            return []
        return items

    def _each(self, where: str, value: str, read: Callable[[str, str], _T | None]) -> list[_T]:
        read_items = [read(where, item) for item in self._items(where, value)]
        return [item for item in read_items if item is not None]

    def _port(self, where: str, text: str, *, otherwise: int = 0) -> int:
        port = _decimal(text)
        if port is None or not is_port(port):
            self.mistakes.append(f"{where} has {_short(text)}: a port is a number from 1 to 65535")
            return otherwise
        return port

    def _ports(self, name: str) -> frozenset[int]:
        where, value = self._value(name)
        return frozenset(self._each(where, value, lambda at, text: self._port(at, text) or None))

    def _ports_or_all(self, name: str) -> frozenset[int] | All:
        return ALL if self.text(name) == "*" else self._ports(name)

    def _number(self, name: str, otherwise: int) -> int:
        where, value = self._value(name)
        number = _decimal(value)
        if number is None:
            self.mistakes.append(f"{where} is {_short(value)}: it is a decimal number")
            return otherwise
        return number

    def _ids(self, name: str, names: Mapping[str, int], kind: str) -> frozenset[int]:
        where, value = self._value(name)
        return frozenset(self._each(where, value, lambda at, text: self._id(at, text, names, kind)))

    def _id(self, where: str, text: str, names: Mapping[str, int], kind: str) -> int | None:
        number = _decimal(text)
        if number is not None and number <= 2**32 - 2:
            return number
        if text in names:
            return names[text]
        self.mistakes.append(
            f"{where} has {_short(text)}: it is neither an id nor a {kind} of this machine"
        )
        return None

    def _proxy_user(self) -> frozenset[int]:
        name = self.variables.get("ENVOY_USER", "") or "istio-proxy"
        return frozenset({self.facts.users.get(name, _DEFAULT_ID)})

    def _mode(self) -> Mode:
        where, value = self._value("istio-inbound-interception-mode")
        if value in {"", Mode.REDIRECT, Mode.TPROXY}:
            return Mode.TPROXY if value == Mode.TPROXY else Mode.REDIRECT
        self.mistakes.append(f"{where} is {_short(value)}: it is REDIRECT or TPROXY, in capitals")
        return Mode.REDIRECT

    def _ranges(self, name: str) -> tuple[IPNetwork, ...]:
        where, value = self._value(name)
        return tuple(self._each(where, value, self._range))

    def _range(self, where: str, text: str) -> IPNetwork | None:
        try:
            if "/" not in text:
                raise ValueError
            network = ip_network(text, strict=False)
        except (AddressValueError, NetmaskValueError, ValueError):
            self.mistakes.append(
                f"{where} has {_short(text)}: a range is an address with the length of its prefix, "
                "such as 10.0.0.0/8 or 2001:db8::/32"
            )
            return None
        if "%" in text or not text.rpartition("/")[2].isdecimal():
            self.mistakes.append(
                f"{where} has {_short(text)}: a range has no zone, and a prefix of so many bits"
            )
            return None
        return network

    def _ranges_or_all(self, name: str) -> tuple[IPNetwork, ...] | All:
        return ALL if self.text(name) == "*" else self._ranges(name)

    def _interfaces(self, name: str) -> tuple[str, ...]:
        where, value = self._value(name)
        return tuple(self._items(where, value))

    def _included_groups(self) -> frozenset[int] | All:
        # Unset is all; set and empty is none: Istio's variable has a default and keeps "".
        value = self.variables.get(_GROUPS, "*").strip()
        return ALL if value == "*" else self._group_ids(_GROUPS)

    def _group_ids(self, variable: str) -> frozenset[int]:
        value = self.variables.get(variable, "")
        return frozenset(
            self._each(
                f"the variable {variable}",
                value,
                lambda at, text: self._id(at, text, self.facts.groups, "group"),
            )
        )

    def _loopback(self) -> IPv4Network:
        otherwise = IPv4Network("127.0.0.1/32")
        value = self.variables.get(_LOOPBACK, "").strip()
        if not value:
            return otherwise
        network = self._range(f"the variable {_LOOPBACK}", value)
        if isinstance(network, IPv6Network):
            self.mistakes.append(f"the variable {_LOOPBACK} is {value}: it is a range of IPv4")
        return network if isinstance(network, IPv4Network) else otherwise

    def _ipv6(self) -> bool:
        dual_stack = self.switch("dual-stack")
        if not self.facts.has_ipv4 and not self.facts.has_ipv6:
            self.mistakes.append(
                "no interface has an address but loopback and link-local ones: apply the rules "
                "when the network is there"
            )
        # Istio's tool asks for the first address, and the kernel lists those of IPv4 first.
        on = self.facts.has_ipv6 and (dual_stack or not self.facts.has_ipv4)
        if self.facts.has_ipv6 and not on:
            self.found.append(
                "this machine has IPv6 addresses, and IPv6 is not redirected: it goes past the "
                "proxy unless --dual-stack is given"
            )
        if dual_stack and not self.facts.has_ipv6:
            self.found.append("--dual-stack has no effect: there is no IPv6 address")
        return on

    def _dns(self) -> DnsCapture | None:
        every = self.switch("capture-all-dns")
        if not self.switch("redirect-dns"):
            if every:
                self.found.append("--capture-all-dns has no effect without --redirect-dns")
            return None
        if every:
            return DnsCapture(servers=ALL)
        if not self.facts.dns_servers:
            self.found.append(
                "--redirect-dns has no effect: resolv.conf names no server; --capture-all-dns "
                "redirects queries to any"
            )
            return None
        return DnsCapture(servers=self.facts.dns_servers)


def _seconds(text: str) -> float | None:
    """Return the length of a duration as Go writes it; None if it is none."""
    length_s = 0.0
    rest = text
    while rest:
        number = rest[: len(rest) - len(rest.lstrip("0123456789."))]
        rest = rest[len(number) :]
        unit = next((each for each in _UNITS_S if rest.startswith(each)), None)
        whole, point, part = number.partition(".")
        digits = whole.isdecimal() and (part.isdecimal() or not point)
        if unit is None or not digits or len(number) > 20:
            return None
        length_s += float(number) * _UNITS_S[unit]
        rest = rest[len(unit) :]
    return length_s if text else None


def _decimal(text: str) -> int | None:
    """Return a number of ASCII digits, of ten at most."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else None


def _short(text: str) -> str:
    """Return a value as it is quoted in a message: it may be long, and have any characters."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
