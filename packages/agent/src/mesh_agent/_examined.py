"""The configuration that the doctor examines, and whose it is.

A person's shell has the agent's environment only where the platform gives it to every process, as
in a container. So the agent that answers is asked what it was started with; what this shell has
counts where none answers, or where it is that of another workload.

What answers may be a program of another user of the machine, which names files, addresses and
programs as it likes. So it is the kernel that tells whose it is; see `DoctorConfig.other_user`.
"""

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

import mesh_doctor
from mesh_agent._config import AgentConfig, compose_config
from mesh_agent._diagnosis import OWN_PROGRAMS, reached_at
from mesh_agent.config._flags import Flags
from mesh_agent.config.shown._effective import DEFAULT
from mesh_agent.config.shown._read_back import StartedAs, read_back
from mesh_agent_cli import CliError, fetch_page

_PAGE = "debug/config"
_MOST_AGENTS = 50
_ENVIRONMENT_FILE = "agent.env"
"""What the guides call the file of an agent's environment."""


class Examined(NamedTuple):
    """A configuration, its problems, and whose it is; `other_user` as in `DoctorConfig`.

    fix: what to do if another one was meant. is_given: whether anybody gave settings.
    """

    config: AgentConfig
    problems: tuple[str, ...]
    said: str
    other_user: str = ""
    fix: str = ""
    is_given: bool = True


class _Running(NamedTuple):
    """An agent that answers."""

    host: str
    port: int
    started: StartedAs

    @property
    def address(self) -> str:
        return mesh_doctor.HttpPlace(host=self.host, port=self.port, path="").address


def examined(
    flags: Flags,
    *,
    environ: Mapping[str, str],
    directory: Path,
    address: str | None = None,
    port: int | None = None,
) -> Examined:
    """Return the configuration of the agent that answers; without one, that of this shell.

    address, port: of a certain agent's status port; None: where the shell's configuration has it,
    and if the shell has none, wherever one agent of this machine has it.

    Raises:
        CliError: several agents run on this machine, and none is named.
    """
    own, problems = compose_config(
        flags, environ=environ, directory=directory, version=flags.version
    )
    host, number = address or reached_at(own.status.host), port or own.status.port
    running = _at(host, number, flags.version)
    named = address is not None or port is not None
    if running is None and not named and problems and not _is_set_up(own):
        running = _only_one(flags.version)
    if running is not None:
        theirs = _described(running, directory)
        if named or not environ.get("POD_NAME") or _workload(own) == _workload(theirs.config):
            return theirs
    status = structs.replace(own.status, host=host, port=number) if named else own.status
    place = mesh_doctor.HttpPlace(host=host, port=number, path="").address
    is_given = _is_set_up(own)
    return Examined(
        structs.replace(own, status=status),
        problems,
        _of_this_shell(own, directory, place, others=running is not None),
        fix="" if is_given else _how_to_give(directory),
        is_given=is_given,
    )


def _how_to_give(directory: Path) -> str:
    """Return how this shell, or an agent that runs, has the settings examined that are meant."""
    named = "name the agent with --port and --address"
    if (directory / _ENVIRONMENT_FILE).is_file():
        return f"set -a; . ./{_ENVIRONMENT_FILE}; set +a; or {named}"
    return f"set the agent's environment in this shell, or {named}"


def _workload(config: AgentConfig) -> tuple[str, str]:
    return config.identity.pod_name, config.identity.namespace


def _described(running: _Running, directory: Path) -> Examined:
    started, other_user = running.started, _other_user(running)
    here = started.directory == directory.absolute()
    flags, envoy = started.flags, Path(started.flags.envoy_path)
    if not here and flags.envoy_path:
        envoy = started.directory / envoy
    # Composing a configuration may run the Envoy, to learn which flags it has.
    flags = structs.replace(
        flags, envoy_path=sys.executable if other_user else flags.envoy_path and str(envoy)
    )
    config, problems = compose_config(
        flags,
        environ=started.environ,
        directory=directory if here else started.directory,
        version=flags.version,
    )
    # Where it answered, which may be one of several addresses that its port is bound to.
    status = structs.replace(config.status, host=running.host, port=running.port)
    if other_user:
        config = structs.replace(config, envoy=dataclasses.replace(config.envoy, binary=envoy))
    return Examined(
        structs.replace(config, status=status),
        problems,
        f"the agent at {running.address}, as it was started in {started.directory}",
        other_user,
    )


def _other_user(running: _Running) -> str:
    """Return that the agent is another user's, or of another file system; empty if it is not."""
    user = os.geteuid()
    sockets = mesh_doctor.listeners(frozenset({running.port})) or ()
    owners = {each.uid for each in sockets if each.protocol is mesh_doctor.Protocol.TCP}
    if owners != {user}:
        said = " or ".join(map(str, sorted(owners))) or "not known"
        return f"user {user} is not the agent's, {said}"
    if not running.started.directory.is_dir():
        return "the agent's files are not to be seen from here"
    return ""


def _of_this_shell(own: AgentConfig, directory: Path, place: str, *, others: bool) -> str:
    if others:
        why = f"the agent at {place} is another workload's"
    else:
        why = f"no agent tells its configuration at {place}"
    shell = f"the environment of this shell, in {directory.absolute()}"
    if _is_set_up(own):
        return f"{shell} ({why})"
    return f"{shell}, which has none of an agent's settings ({why})"


def _is_set_up(own: AgentConfig) -> bool:
    """Return whether this shell has any of an agent's settings."""
    sections = own.effective.sections
    every = (
        each
        for section in ("flags", "variables", "proxyConfig")
        for each in sections[section]
        if each.name not in _OF_EVERY_POD
    )
    return any(each.origin != DEFAULT for each in every)


_OF_EVERY_POD = frozenset({"KUBERNETES_SERVICE_HOST"})


def _at(host: str, port: int, version: str) -> _Running | None:
    try:
        page = fetch_page(_PAGE, address=host, port=port, purpose="ask for the configuration")
    except CliError:
        return None  # what is there, if anything, the doctor finds out
    started = read_back(page, version=version)
    return None if started is None else _Running(host, port, started)


def _only_one(version: str) -> _Running | None:
    found = list(_of_this_machine(version))
    if len(found) > 1:
        places = ", ".join(
            f"{each.started.environ.get('POD_NAME', 'proxy')} at {each.address}" for each in found
        )
        raise CliError(
            f"{len(found)} agents run here, name one with --address and --port: {places}",
            exit_code=2,
        )
    return found[0] if found else None


def _of_this_machine(version: str) -> Iterator[_Running]:
    """Yield the agents whose processes this user may see; of each, the port that answers."""
    answered: set[int] = set()
    for each in mesh_doctor.listening_programs(OWN_PROGRAMS):
        if each.pid is None or each.pid in answered or len(answered) == _MOST_AGENTS:
            continue
        running = _at(reached_at(each.host), each.port, version)
        if running is not None:
            answered.add(each.pid)
            yield running
