"""Where everything is that the doctor looks at, as plain values."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from mesh_identity import SystemRoots
from mesh_lifecycle import check_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPlace:
    """A page of an HTTP server. host: a name or an address."""

    host: str
    port: int
    path: str

    @property
    def address(self) -> str:
        """The server's address, as it is written in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server of the control plane.

    serves: what for, as in `configuration and certificates`.
    address: host:port. name: in its certificate; name_setting: what sets that name.
    roots: the file with the roots that it is verified by; None for a server without TLS.
    root_setting: what names another file.
    signs: whether it is the authority, which a token can be tried with.
    """

    serves: str
    address: str
    name: str
    name_setting: str
    roots: Path | SystemRoots | None
    root_setting: str
    signs: bool

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPlace:
    """The workload's token, and whose it should be.

    namespace, service_account: None where no settings say whose it should be; then any will do.
    audience: the one that control planes accept by default.
    needed: whether the workload has no other proof of its identity.
    """

    path: Path
    namespace: str | None
    service_account: str | None
    audience: str = "istio-ca"
    needed: bool = True

    def __post_init__(self) -> None:
        check_fields(self)


class Protocol(StrEnum):
    """The protocols of ports."""

    TCP = "tcp"
    UDP = "udp"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortUse:
    """A port that the agent or its Envoy listens on.

    host: an IP address; `localhost`; or empty for every interface. setting: what sets the port.
    """

    host: str
    port: int
    use: str
    setting: str
    protocol: Protocol = Protocol.TCP


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsPlace:
    """Where DNS queries are answered (host, port), and the file that names other resolvers."""

    listens: tuple[tuple[str, int], ...]
    resolv_conf: Path

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyPlace:
    """The Envoy to run. missing: why there is none; then `binary` is None."""

    binary: Path | None
    missing: str = ""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDirectory:
    """A directory that the agent writes to, or makes. use: what it writes there."""

    path: Path
    use: str

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorConfig:
    """Everything that is examined.

    examined: whose configuration this is, as in `that of the agent at ...`; printed first.
    examined_fix: what to do if another one was meant; empty if there is nothing to do.
    other_user: that somebody else says what is examined, as in `user 0 is not the agent's, 1337`;
        empty if no one else does. Then no program is run that it names, no token is read, and a
        file that can't be read is no problem: the agent's own word is taken instead.
    problems: what is wrong with the configuration itself, a sentence each.
    learned_roots: the file with roots that the control plane has announced; None for none.
    clocks: pages of the control plane whose answers have a date.
    agent: the status of the agent, if it runs. certificates: those that its Envoy has.
    directories: those that the agent writes to.
    token, dns, envoy: None where there is none to be examined.
    interception: the mode that the workload's traffic is redirected in; empty if it is not set.
    workload: its name, as the agent tells it; empty if any agent will do.
    own_programs: names in the agent's command line, by which its process is known.
    timeout_s: how long each server, file or program has to answer.
    """

    agent: HttpPlace
    examined: str = ""
    examined_fix: str = ""
    other_user: str = ""
    problems: tuple[str, ...] = ()
    servers: tuple[Server, ...] = ()
    learned_roots: Path | None = None
    clocks: tuple[HttpPlace, ...] = ()
    certificates: HttpPlace | None = None
    token: TokenPlace | None = None
    directories: tuple[WrittenDirectory, ...] = ()
    ports: tuple[PortUse, ...] = ()
    dns: DnsPlace | None = None
    envoy: EnvoyPlace | None = None
    interception: str = ""
    workload: str = ""
    own_programs: tuple[str, ...] = ()
    timeout_s: float = field(default=3.0)

    def __post_init__(self) -> None:
        check_fields(self)
