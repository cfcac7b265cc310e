"""Observes everything at once; each observation takes a few seconds at most."""

import asyncio
import time
from functools import partial

from mesh_doctor._config import DoctorConfig
from mesh_doctor._observed import (
    Listener,
    Observed,
    SeenCapture,
    SeenClock,
    SeenPage,
    SeenServer,
    SeenToken,
)
from mesh_doctor.observing._control_plane import seen_server
from mesh_doctor.observing._disks import seen_disk
from mesh_doctor.observing._http_page import seen_clock, seen_page
from mesh_doctor.observing._listeners import listeners
from mesh_doctor.observing._programs import seen_capture, seen_envoy
from mesh_doctor.observing._token import seen_token
from mesh_filewatch import ReadTimedOut, fetch_bytes, run_in_thread

_MAX_RESOLV_CONF_BYTES = 256 * 1024


async def observe(config: DoctorConfig) -> Observed:
    """Look at everything that the configuration names."""
    timeout_s = config.timeout_s
    async with asyncio.TaskGroup() as group:
        begin = group.create_task
        control_plane = begin(_control_plane(config), name="control plane")
        clocks = [begin(seen_clock(each, timeout_s=timeout_s)) for each in config.clocks]
        agent = begin(seen_page(config.agent, timeout_s=timeout_s), name="agent")
        certificates = begin(_certificates(config), name="Envoy's certificates")
        disks = [begin(seen_disk(each, timeout_s=timeout_s)) for each in config.directories]
        sockets = begin(_listeners(config), name="listeners")
        resolvers = begin(_resolv_conf(config), name="resolv.conf")
        capture = begin(_capture(config), name="capture rules")
        envoy = None
        if config.envoy is not None and config.envoy.binary is not None and not config.other_user:
            envoy = begin(seen_envoy(config.envoy.binary, timeout_s=2 * timeout_s), name="Envoy")
    token, servers = control_plane.result()
    resolv_conf, problem = resolvers.result()
    seen: list[SeenClock | None] = [each.result() for each in clocks]
    return Observed(
        now=time.time(),
        agent=agent.result(),
        token=token,
        servers=servers,
        clocks=tuple(each for each in seen if each is not None),
        certificates=certificates.result(),
        disks=tuple(each.result() for each in disks),
        listeners=sockets.result(),
        resolv_conf=resolv_conf,
        resolv_conf_problem=problem,
        capture=capture.result(),
        envoy=None if envoy is None else envoy.result(),
    )


async def _control_plane(
    config: DoctorConfig,
) -> tuple[SeenToken | None, tuple[SeenServer, ...]]:
    seen: SeenToken | None = None
    token: str | None = None
    if config.token is not None and not config.other_user:
        seen, token = await seen_token(config.token.path, timeout_s=config.timeout_s)
    ask = partial(
        seen_server,
        learned_roots=config.learned_roots,
        token=token,
        timeout_s=config.timeout_s,
    )
    return seen, tuple(await asyncio.gather(*map(ask, config.servers)))


async def _certificates(config: DoctorConfig) -> SeenPage | None:
    if config.certificates is None:
        return None
    return await seen_page(config.certificates, timeout_s=config.timeout_s)


async def _listeners(config: DoctorConfig) -> tuple[Listener, ...] | None:
    ports = frozenset(each.port for each in config.ports)
    work = partial(listeners, ports)
    try:
        return await run_in_thread(work, path="/proc/net/tcp", timeout_s=config.timeout_s)
    except ReadTimedOut:
        return None


async def _resolv_conf(config: DoctorConfig) -> tuple[str | None, str]:
    if config.dns is None:
        return None, ""
    path = config.dns.resolv_conf
    try:
        content = await fetch_bytes(
            path, max_bytes=_MAX_RESOLV_CONF_BYTES, timeout_s=config.timeout_s
        )
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror}"
    return content.decode("utf-8", "replace"), ""


async def _capture(config: DoctorConfig) -> SeenCapture:
    return await seen_capture(timeout_s=config.timeout_s)
