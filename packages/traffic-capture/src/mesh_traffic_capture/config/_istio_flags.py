"""Istio's flags for the rules: their names, short forms, variables and defaults, of two releases.

Names and defaults are those of `istio-iptables` 1.11 and of Istio's main branch of August 2026.
"""

from __future__ import annotations

from enum import StrEnum

from mesh_traffic_capture._errors import InvalidCapture
from mesh_traffic_capture._value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final


class FlagUse(StrEnum):
    """Whether a flag does something."""

    HONOURED = "honoured"
    WITHOUT_EFFECT = "without effect"
    """What it asks for is always so, or has no meaning here."""


@value
class IstioFlag:
    """One flag: `--name`, `-short`, and the variables that are read without it."""

    name: str
    short: str = ""
    variables: tuple[str, ...] = ()
    """Beside the one that is named as the flag is, in capitals."""
    default: str = ""
    is_switch: bool = False
    """Whether the flag may stand without a value, which then is true."""
    use: FlagUse = FlagUse.HONOURED
    meaning: str

    @property
    def all_variables(self) -> tuple[str, ...]:
        """Return the variables, the strongest first."""
        return (self.name.upper().replace("-", "_"), *self.variables)


def _switch(
    name: str,
    meaning: str,
    *,
    short: str = "",
    variables: tuple[str, ...] = (),
    default: str = "false",
    use: FlagUse = FlagUse.HONOURED,
) -> IstioFlag:
    return IstioFlag(
        name=name,
        short=short,
        variables=variables,
        default=default,
        is_switch=True,
        use=use,
        meaning=meaning,
    )


_UNUSED: Final = FlagUse.WITHOUT_EFFECT

ISTIO_FLAGS: Final[tuple[IstioFlag, ...]] = (
    IstioFlag(name="envoy-port", short="p", default="15001", meaning="the proxy's outbound port"),
    IstioFlag(
        name="inbound-capture-port", short="z", default="15006", meaning="the proxy's inbound port"
    ),
    IstioFlag(
        name="inbound-tunnel-port",
        short="e",
        default="15008",
        meaning="the proxy's HBONE port, which is never redirected",
    ),
    IstioFlag(
        name="proxy-uid",
        short="u",
        meaning="users, by id or name, whose traffic is the proxy's; else $ENVOY_USER's, else 1337",
    ),
    IstioFlag(
        name="proxy-gid",
        short="g",
        meaning="groups, by id or name, whose traffic is the proxy's; else the ids of --proxy-uid",
    ),
    IstioFlag(
        name="istio-inbound-interception-mode",
        short="m",
        meaning="how inbound connections are redirected: REDIRECT or TPROXY",
    ),
    IstioFlag(
        name="istio-inbound-ports",
        short="b",
        meaning="inbound TCP ports that are redirected, or *; without any, none",
    ),
    IstioFlag(
        name="istio-local-exclude-ports",
        short="d",
        meaning="inbound ports that are not redirected, if all are",
    ),
    IstioFlag(
        name="istio-exclude-interfaces",
        short="c",
        meaning="interfaces of which nothing is redirected",
    ),
    IstioFlag(
        name="istio-service-cidr",
        short="i",
        meaning="destinations to which TCP is redirected, or *; without any, none",
    ),
    IstioFlag(
        name="istio-service-exclude-cidr",
        short="x",
        meaning="destinations to which nothing is redirected",
    ),
    IstioFlag(
        name="istio-outbound-ports",
        short="q",
        meaning="outbound TCP ports that are redirected wherever they go",
    ),
    IstioFlag(
        name="istio-local-outbound-ports-exclude",
        short="o",
        meaning="outbound TCP and UDP ports that are never redirected",
    ),
    IstioFlag(
        name="kube-virt-interfaces",
        short="k",
        meaning="interfaces of virtual machines, whose traffic is treated as outbound",
    ),
    IstioFlag(
        name="istio-inbound-tproxy-mark",
        short="t",
        default="1337",
        meaning="the mark of TPROXY's packets",
    ),
    IstioFlag(
        name="istio-inbound-tproxy-route-table",
        short="r",
        default="133",
        meaning="the routing table of TPROXY's packets",
    ),
    _switch("dry-run", "say what would be done, and change nothing", short="n"),
    IstioFlag(
        name="iptables-probe-port",
        default="15002",
        meaning="the port that validation connects to",
    ),
    IstioFlag(name="probe-timeout", default="5s", meaning="how long validation waits"),
    _switch("skip-rule-apply", "apply nothing"),
    _switch("run-validation", "connect through the rules, to see that they are there"),
    _switch(
        "redirect-dns",
        "redirect DNS queries to the agent",
        variables=("ISTIO_META_DNS_CAPTURE",),
    ),
    _switch("capture-all-dns", "redirect DNS queries to any server, not only resolv.conf's"),
    IstioFlag(
        name="network-namespace",
        meaning="the network namespace to work in, by path; the command enters it",
    ),
    _switch(
        "cni-mode",
        "without effect: the lock belongs to the network namespace, and names of users are looked "
        "up before the rules are applied",
        use=_UNUSED,
    ),
    _switch("drop-invalid", "drop invalid inbound packets", variables=("INVALID_DROP",)),
    _switch(
        "dual-stack",
        "redirect IPv6 also where an IPv4 address comes first",
        variables=("ISTIO_DUAL_STACK",),
    ),
    _switch(
        "reconcile",
        "without effect: rules are always compared with those that are there, and replaced "
        "without a moment in which there are none",
        use=_UNUSED,
    ),
    _switch("cleanup-only", "remove the rules"),
    _switch(
        "force-apply",
        "without effect: rules of an earlier run never stop the next one",
        use=_UNUSED,
    ),
    _switch("native-nftables", "use nft; it is used anyway where it is installed"),
    IstioFlag(
        name="force-iptables-binary",
        meaning="use iptables: legacy or nft",  # the values are Istio's
    ),
    _switch(
        "restore-format",
        "without effect: rules are never applied one by one",
        short="f",
        default="true",
        use=_UNUSED,
    ),
    IstioFlag(
        name="output-paths",
        use=_UNUSED,
        meaning="without effect: --dry-run prints the rules",
    ),
)


@value
class IstioVariable:
    """One variable that has no flag."""

    name: str
    use: FlagUse = FlagUse.HONOURED
    meaning: str


ISTIO_VARIABLES: Final[tuple[IstioVariable, ...]] = (
    IstioVariable(
        name="ISTIO_OUTBOUND_OWNER_GROUPS",
        meaning="groups, by id or name, whose traffic alone is redirected; else all",
    ),
    IstioVariable(
        name="ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE",
        meaning="groups whose traffic is not redirected, while all others' is",
    ),
    IstioVariable(
        name="ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR",
        meaning="IPv4 destinations that are the machine itself; else 127.0.0.1/32",
    ),
    IstioVariable(name="ENVOY_USER", meaning="the proxy's user where --proxy-uid names none"),
    IstioVariable(
        name="IPTABLES_TRACE_LOGGING",
        use=FlagUse.WITHOUT_EFFECT,
        meaning="no rule logs; `explain` tells which rule decides about a packet",
    ),
    IstioVariable(
        name="DRY_RUN_FILE_PATH",
        use=FlagUse.WITHOUT_EFFECT,
        meaning="--dry-run prints the rules",
    ),
)
_BY_NAME: Final = {flag.name: flag for flag in ISTIO_FLAGS}
_BY_SHORT: Final = {flag.short: flag for flag in ISTIO_FLAGS if flag.short}


def read_arguments(arguments: Sequence[str], *, also: Sequence[IstioFlag] = ()) -> dict[str, str]:
    """Return the values of flags by name, as Istio's tool reads its command line.

    `also` are flags that its tool does not have.

    `--name value`, `--name=value`, `-p value`, `-p=value`, `-pvalue`; switches alone or with `=`;
    of two values the last counts. Raises `InvalidCapture` with all that is no flag.
    """
    values: dict[str, str] = {}
    mistakes: list[str] = []
    names = {**_BY_NAME, **{flag.name: flag for flag in also}}
    rest = iter(arguments)
    for argument in rest:
        try:
            for flag, value in _read(argument, rest, names):
                values[flag.name] = value
        except InvalidCapture as error:
            mistakes.extend(error.mistakes)
    if mistakes:
        raise InvalidCapture(tuple(mistakes))
    return values


def _read(
    argument: str, rest: Iterator[str], names: Mapping[str, IstioFlag]
) -> Iterator[tuple[IstioFlag, str]]:
    if argument.startswith("--") and len(argument) > 2:
        name, equals, value = argument[2:].partition("=")
        flag = names.get(name)
        if flag is None:
            raise InvalidCapture((f"there is no flag --{name}",))
        yield flag, value if equals else _default_value(flag, f"--{name}", rest)
    elif argument.startswith("-") and len(argument) > 1 and argument != "--":
        letters = argument[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            flag = _BY_SHORT.get(letter)
            if flag is None:
                raise InvalidCapture((f"there is no flag -{letter}",))
            if letters.startswith("="):
                yield flag, letters[1:]
                return
            if letters and not flag.is_switch:
                yield flag, letters
                return
            yield flag, _default_value(flag, f"-{letter}", rest)
    else:
        raise InvalidCapture((f"{argument!r} is no flag: there are no other arguments",))


def _default_value(flag: IstioFlag, written: str, rest: Iterator[str]) -> str:
    if flag.is_switch:
        return "true"
    value = next(rest, None)
    if value is None:
        raise InvalidCapture((f"{written} needs a value",))
    return value
