"""Connects to the control plane's servers as the agent does, and shows them the token.

The token goes to a server only after it was verified, over the same connection. It is shown with a
request for a certificate that has no CSR: the authority says whether it takes the caller,
and can sign nothing.
"""

import ssl
import time
from pathlib import Path

from mesh_doctor._config import Server
from mesh_doctor._observed import SeenServer, TokenTrial
from mesh_filewatch import fetch_bytes
from mesh_identity import (
    SYSTEM,
    ExpectedName,
    Fault,
    HostNotResolved,
    LearnedRoots,
    NoSystemRoots,
    NoUsableRoots,
    TrustedRoots,
    Unreachable,
    fetch_addresses,
    fetch_system_roots,
    find_fault,
    roots_context,
)

_MAX_ROOTS_BYTES = 1 << 20
_CREATE_CERTIFICATE = "/istio.v1.auth.IstioCertificateService/CreateCertificate"


class _NoRoots(Exception):
    """The server can't be verified; the message says why."""


async def seen_server(
    server: Server, *, learned_roots: Path | None, token: str | None, timeout_s: float
) -> SeenServer:
    """Return whether a server is reached and verified, and whether it takes the token."""
    host, _, port = server.address.rpartition(":")
    if not port.isascii() or not port.isdigit():
        reason = f"{server.address!r} is no address: it should be HOST:PORT"
        return SeenServer(server=server, unreachable=Unreachable(Fault.OTHER, reason))
    try:
        trusted = await _trusted(server, learned_roots)
    except _NoRoots as error:
        return SeenServer(server=server, roots_problem=str(error))
    try:
        addresses = await fetch_addresses(host.strip("[]"))
    except HostNotResolved as error:
        return SeenServer(server=server, unreachable=Unreachable(Fault.UNRESOLVED, str(error)))
    unreachable: Unreachable | None = None
    for address in addresses:
        unreachable = await find_fault(
            address,
            int(port),
            trusted=trusted,
            expected=ExpectedName(server.name, server.name_setting),
            timeout_s=timeout_s,
        )
        if unreachable is None:
            break
    trial = None
    if unreachable is None and token and trusted is not None and server.signs:
        trial = await _trial(server, trusted.roots_pem, token, timeout_s=timeout_s)
    return SeenServer(server=server, unreachable=unreachable, trial=trial)


async def _trusted(server: Server, learned_roots: Path | None) -> TrustedRoots | None:
    if server.roots is None:
        return None
    if server.roots is SYSTEM:
        try:
            return await fetch_system_roots()
        except NoSystemRoots as error:
            raise _NoRoots(str(error)) from error
    path = server.roots
    try:
        pem = await fetch_bytes(path, max_bytes=_MAX_ROOTS_BYTES)
    except FileNotFoundError:
        raise _NoRoots(f"root certificate {path} does not exist") from None
    except OSError as error:
        raise _NoRoots(f"root certificate {path} cannot be read: {error.strerror}") from None
    try:
        roots_context(pem)
    except (NoUsableRoots, ssl.SSLError):
        raise _NoRoots(f"root certificate {path} holds no PEM certificate") from None
    if learned_roots is not None:
        pem += b"\n" + LearnedRoots(learned_roots, now=time.time).trusted_beside(pem)
    return TrustedRoots(roots_pem=pem, described=f"a root in {path}")


async def _trial(server: Server, roots_pem: bytes, token: str, *, timeout_s: float) -> TokenTrial:
    import grpc

    channel = grpc.aio.secure_channel(
        server.address,
        grpc.ssl_channel_credentials(roots_pem),
        options=[
            ("grpc.ssl_target_name_override", server.name),
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.compression_enabled_algorithms_bitset", 1),  # an answer that is unpacked is none
        ],
    )
    try:
        call = channel.unary_unary(_CREATE_CERTIFICATE, None, None)
        await call(b"", metadata=(("authorization", f"Bearer {token}"),), timeout=timeout_s)
    except grpc.aio.AioRpcError as error:
        code, details = error.code(), " ".join((error.details() or "")[:500].split())
        said = f"{code.name}: {details}" if details else code.name
        if code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}:
            return TokenTrial(accepted=False, reason=said)
        # The authority knows the caller before it looks at what is asked for.
        about_the_request = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION}
        return TokenTrial(accepted=True if code in about_the_request else None, reason=said)
    else:
        return TokenTrial(accepted=True)
    finally:
        await channel.close(None)
