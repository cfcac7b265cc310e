"""One check of a probe, which always ends in an outcome."""

import asyncio
from collections.abc import Sequence
from typing import assert_never

from mesh_probes._errors import CheckFailed
from mesh_probes._outcome import Outcome
from mesh_probes._probe import Exec, GrpcHealth, HttpGet, Probe, TcpSocket
from mesh_probes.checking._connection import connected, is_address, os_reason
from mesh_probes.checking._request import (
    Headers,
    Request,
    Response,
    first_request,
    netloc,
    redirected,
)

_MAX_REDIRECTS = 10


async def check(
    probe: Probe,
    *,
    host: str,
    sources: Sequence[str] = (),
    headers: Headers = (),
    status_port: int | None = None,
) -> Outcome:
    """Check an application once; returns within the probe's timeout, and raises nothing.

    host: name or address to connect to, where the probe names none.
    sources: local addresses to connect from, such as 127.0.0.6 and ::6: the first is used that is
    of the target's address family and that this machine has; without one, the kernel chooses.
    headers: of the HTTP request that is passed through to the application, if there is one.
    status_port: the port on which that request arrived. In its `Host`, the probe's takes its place.
    """
    host = _target_host(probe, host)
    subject = _subject(probe, host)
    try:
        async with asyncio.timeout(probe.timeout_s):
            match probe.action:
                case HttpGet() as action:
                    request = first_request(
                        action, host=host, forwarded=headers, status_port=status_port
                    )
                    return await _check_http(action, request, sources, subject)
                case TcpSocket() as action:
                    async with connected(host, action.port, sources=sources):
                        return Outcome(healthy=True, status=200)
                case GrpcHealth() as action:
                    return await _check_grpc(action, host, sources, probe.timeout_s)
                case Exec() as action:
                    return await _check_command(action)
                case never:
                    assert_never(never)
    except TimeoutError:
        reason = f"no answer within {probe.timeout_s:g} s"
    except CheckFailed as error:
        reason = str(error)
    except OSError as error:  # Such as having no file descriptor left.
        reason = os_reason(error)
    return Outcome(healthy=False, status=500, reason=f"{subject}: {reason}")


async def _check_http(
    action: HttpGet, request: Request, sources: Sequence[str], subject: str
) -> Outcome:
    for _ in range(_MAX_REDIRECTS + 1):
        response = await _fetch(request, sources, http2=action.http2)
        following = redirected(request, response)
        if following is None:
            return _outcome(response, subject)
        request = following
    raise CheckFailed(f"more than {_MAX_REDIRECTS} redirects, the last to {request.url}")


async def _fetch(request: Request, sources: Sequence[str], *, http2: bool) -> Response:
    from mesh_probes.checking._http1 import fetch_http1

    async with connected(request.host, request.port, sources=sources) as connection:
        if request.scheme == "https":
            name = "" if is_address(request.host) else request.host
            protocols = ("h2", "http/1.1") if http2 else ("http/1.1",)
            if await connection.start_tls(server_name=name, protocols=protocols) == "h2":
                from mesh_probes.checking._http2 import fetch_http2

                return await fetch_http2(connection, request)
        return await fetch_http1(connection, request)


def _outcome(response: Response, subject: str) -> Outcome:
    if 200 <= response.status < 300:
        return Outcome(healthy=True, status=response.status, body=response.body)
    if 300 <= response.status < 400:
        return Outcome(healthy=True, status=200, body=response.body)
    return Outcome(
        healthy=False,
        status=response.status,
        reason=f"{subject}: status {response.status}",
        body=response.body,
    )


async def _check_grpc(
    action: GrpcHealth, host: str, sources: Sequence[str], timeout_s: float
) -> Outcome:
    from mesh_probes.checking._grpc import check_grpc

    async with connected(host, action.port, sources=sources) as connection:
        await check_grpc(
            connection,
            authority=netloc("", host, action.port),
            service=action.service,
            timeout_s=timeout_s,
        )
    return Outcome(healthy=True, status=200)


async def _check_command(action: Exec) -> Outcome:
    from mesh_probes.checking._command import run_command

    return Outcome(healthy=True, status=200, body=await run_command(action.command))


def _target_host(probe: Probe, host: str) -> str:
    named = "" if isinstance(probe.action, Exec) else probe.action.host
    return (named or host).removeprefix("[").removesuffix("]")


def _subject(probe: Probe, host: str) -> str:
    match probe.action:
        case HttpGet() as action:
            place = netloc(action.scheme, host, action.port)
            return f"GET {action.scheme}://{place}/{action.path.removeprefix('/')}"
        case TcpSocket() as action:
            return f"TCP {netloc('', host, action.port)}"
        case GrpcHealth() as action:
            service = f" {action.service}" if action.service else ""
            return f"gRPC {netloc('', host, action.port)}{service}"
        case Exec() as action:
            return f"command {action.command[0]}"
        case never:
            assert_never(never)
