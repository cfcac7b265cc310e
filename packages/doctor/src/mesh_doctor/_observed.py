"""Everything that was seen, as plain values: the checks decide on these alone."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from types import MappingProxyType

from mesh_doctor._config import HttpPlace, Protocol, Server, WrittenDirectory
from mesh_identity import TokenClaims, Unreachable


class TokenState(StrEnum):
    """Whether a token file holds a token."""

    READ = "read"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenToken:
    """The token file. fault, facts: see `mesh_identity`; never the token itself.

    claims: None if it is no JSON Web Token.
    """

    state: TokenState
    reason: str = ""
    fault: str | None = None
    facts: str = ""
    claims: TokenClaims | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTrial:
    """How the authority answered a request that was sent with the token, but asks for nothing.

    accepted: whether it took the caller for whom the token says; None if that is not known.
    """

    accepted: bool | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenServer:
    """A server of the control plane.

    roots_problem: why it can't be verified at all. unreachable: None if it was reached.
    trial: None if the token was not tried.
    """

    server: Server
    roots_problem: str = ""
    unreachable: Unreachable | None = None
    trial: TokenTrial | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenClock:
    """A clock of the control plane. ahead_s: by how much it is ahead of this machine's."""

    place: HttpPlace
    ahead_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPage:
    """A page that holds a JSON object, or the reason why there is none.

    answered: whether there was any answer; what gave it may be another program.
    refused: nothing listens there.
    """

    document: Mapping[str, object] | None = None
    reason: str = ""
    answered: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A socket that listens. pid: None if only its owner's user id may be seen."""

    protocol: Protocol
    host: str
    port: int
    uid: int
    pid: int | None = None
    program: str = ""


def runs(listener: Listener, programs: Collection[str]) -> bool:
    """Return whether one of these names is among the words of a listener's program."""
    return any(PurePath(word).name in programs for word in listener.program.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDisk:
    """The file system that a directory is on, or would be.

    free_bytes, free_files: for users other than root; None where the file system does not count.
    file_system: the number of the device; None where it is not known.
    reason: why it can't be looked at; empty if it can.
    """

    directory: WrittenDirectory
    file_system: int | None = None
    free_bytes: int | None = None
    free_files: int | None = None
    read_only: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCapture:
    """Whether there are rules that capture traffic; None: it can't be seen, for `reason`."""

    rules: bool | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEnvoy:
    """The Envoy's version, or why it can't be run."""

    version: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything that was seen. now: this machine's clock, Unix time in seconds.

    resolv_conf: the file's text; None if it can't be read, for `resolv_conf_problem`.
    listeners: None if the kernel does not tell.
    """

    now: float
    agent: SeenPage
    token: SeenToken | None = None
    servers: tuple[SeenServer, ...] = ()
    clocks: tuple[SeenClock, ...] = ()
    certificates: SeenPage | None = None
    disks: tuple[SeenDisk, ...] = ()
    listeners: tuple[Listener, ...] | None = ()
    resolv_conf: str | None = None
    resolv_conf_problem: str = ""
    capture: SeenCapture = field(default_factory=lambda: SeenCapture(rules=None))
    envoy: SeenEnvoy | None = None


def entry(document: Mapping[str, object] | None, key: str) -> Mapping[str, object]:
    """Return an object in an object; an empty one for anything else."""
    value = (document or {}).get(key)
    return value if isinstance(value, dict) else MappingProxyType({})


def text(document: Mapping[str, object], key: str) -> str:
    """Return a text in an object, in one line and of bounded length; empty for anything else."""
    value = document.get(key)
    return " ".join(value[:2000].split()) if isinstance(value, str) else ""
