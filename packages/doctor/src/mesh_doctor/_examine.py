"""Observes everything, and lets each check decide; in the order of cause and effect."""

from collections.abc import Iterator

from mesh_doctor._config import DoctorConfig
from mesh_doctor._consequences import with_consequences
from mesh_doctor._finding import Cause, Finding, ok, problem, skipped
from mesh_doctor._observed import Observed
from mesh_doctor.checks._agent import agent
from mesh_doctor.checks._capture import capture
from mesh_doctor.checks._clock import clock
from mesh_doctor.checks._control_plane import control_plane
from mesh_doctor.checks._disks import disks
from mesh_doctor.checks._dns import dns
from mesh_doctor.checks._envoy import envoy
from mesh_doctor.checks._ports import ports
from mesh_doctor.checks._token import token
from mesh_doctor.observing._observe import observe


async def examine(config: DoctorConfig) -> tuple[Finding, ...]:
    """Return everything that was found, causes before what follows from them.

    Nothing is changed. Each server, file and program is waited for only as long as
    `config.timeout_s`, a few times in a row at most.
    """
    return tuple(decide(config, await observe(config)))


def decide(config: DoctorConfig, seen: Observed) -> Iterator[Finding]:
    """Yield every finding."""
    yield from with_consequences(_every(config, seen))


def _every(config: DoctorConfig, seen: Observed) -> Iterator[Finding]:
    yield from _configuration(config)
    yield from clock(seen)
    yield from control_plane(config, seen)
    yield from token(config, seen)
    yield from disks(config, seen)
    yield from ports(config, seen)
    yield from dns(config, seen)
    yield from capture(config, seen)
    yield from envoy(config, seen)
    yield from agent(config, seen)


def _configuration(config: DoctorConfig) -> Iterator[Finding]:
    check = "configuration"
    if config.examined:
        yield ok("examined", config.examined, config.examined_fix)
    for each in config.problems:
        if config.other_user:
            yield skipped(check, f"{each} ({config.other_user})")
        else:
            fix = "correct it; the agent does not start before"
            yield problem(check, Cause.CONFIGURATION, each, fix)
    if not config.problems:
        yield ok(check, "flags, environment and files can be read")
