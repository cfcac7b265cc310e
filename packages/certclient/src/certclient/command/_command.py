"""The `certclient` command: `get` fetches one certificate, `watch` keeps it fresh."""

import asyncio
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import assert_never

from certclient._errors import HookFailed
from certclient.authorities._istio_ca import istio_ca
from certclient.authorities._workload_api import WorkloadApiConfig, follow_workload_api
from certclient.command._hooks import run_hooks
from certclient.command._options import AuthoritySource, CommandConfig, Source, parse
from certclient.feed._certificates import Certificates, RotationStatus
from certclient.files._file_certificates import follow_files
from certclient.files._files_config import FilesConfig
from certclient.files._output_files import write_files_in_thread, write_until_done
from certclient.files._stored_certificate import OutputFiles
from certclient.rotation._rotation import keep_fresh
from certclient.rotation._taking_up import EarlierCertificate
from certclient.tls._trust_bundle import TrustingCertificates, with_trust
from certclient.tls._trust_config import TrustConfig
from certclient.x509._certificate import Certificate
from mesh_command_line import exit_status
from mesh_lifecycle import Clock, SystemClock, configure_logging, in_background, stop_signals

log = logging.getLogger("certclient")

_INTERRUPTED = 130
"""The exit status of a shell's command that Ctrl-C ended."""


def main(clock: Clock | None = None) -> None:
    """Run the command line and exit the program with its exit code.

    clock: the clock by which certificates are renewed and checked; None for the machine's.
    """
    sys.exit(exit_status(lambda: _run(clock), name="certclient"))


def _run(clock: Clock | None) -> int:
    # A core file would have the key in it. The limit applies to hooks too, which may raise it.
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    config = parse(sys.argv[1:], os.environ)
    configure_logging(config.log_level, as_json=config.as_json, stream=sys.stderr)
    run = _get if config.once else _watch
    return asyncio.run(run(config, clock or SystemClock()))


async def _get(config: CommandConfig, clock: Clock) -> int:
    with stop_signals() as stopping:
        async with _opened(config, clock) as (certificates, failed_tries):
            first = asyncio.create_task(
                _first_or_final(certificates, waits=config.waits), name="first certificate"
            )
            stopped = asyncio.create_task(stopping.wait(), name="stop")
            try:
                await asyncio.wait(
                    (first, stopped),
                    timeout=config.timeout_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                certificate = first.result() if first.done() else None
            finally:
                first.cancel()
                stopped.cancel()
                await asyncio.gather(first, stopped, return_exceptions=True)
            if certificate is None:
                reason = certificates.last_error or failed_tries.newest
                failed = _fail(config, _why_none(config, certificates, reason, stopping.reason))
                return _INTERRUPTED if stopping.reason == signal.SIGINT.name else failed
            if isinstance(certificates, TrustingCertificates):
                # A certificate without the requested roots or revocation lists is a failure.
                if faults := await certificates.first_faults():
                    return _fail(config, "; ".join(faults))
                certificate = certificates.latest or certificate
        return await _deliver_once(config, certificate)


async def _first_or_final(certificates: Certificates, *, waits: bool) -> Certificate | None:
    """Return the first certificate; None when waiting any longer would not help."""
    async for status in certificates.statuses():
        if status.certificate is not None or _is_final(status, waits=waits):
            return status.certificate
    return None


def _is_final(status: RotationStatus, *, waits: bool) -> bool:
    return status.refused or (not waits and status.last_error is not None)


def _why_none(
    config: CommandConfig, certificates: Certificates, reason: str | None, stopped: str | None
) -> str:
    reason = reason or "the issuer has not answered"
    if stopped is not None:
        return f"stopped by {stopped} before there was a certificate: {reason}"
    if _is_final(certificates.status, waits=config.waits):
        return f"no certificate: {reason}"
    return f"no certificate within {config.timeout_s:g} s: {reason}"


async def _deliver_once(config: CommandConfig, certificate: Certificate) -> int:
    try:
        if config.output is not None:
            await write_files_in_thread(config.output, certificate)
        _print_certificate(config, certificate)
        await _hooks(config, certificate)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = config.output.directory if config.output else "standard output"
        return _fail(config, f"{where} cannot be written: {error.strerror}")
    except HookFailed as error:
        return _fail(config, str(error))
    return 0


async def _watch(config: CommandConfig, clock: Clock) -> int:
    with stop_signals(signal.SIGTERM, signal.SIGINT) as stopping:
        async with (
            _opened(config, clock) as (certificates, _),
            in_background(_deliver(config, certificates, clock), name="delivery"),
            in_background(_print_errors(config, certificates), name="errors"),
        ):
            await stopping.wait()
    return 0


async def _deliver(config: CommandConfig, certificates: Certificates, clock: Clock) -> None:
    async for certificate in certificates.changes():
        if certificate is None:
            _print(config, {"event": "expired"}, "certificate expired and was not renewed")
            continue
        if config.output is not None and not await write_until_done(
            config.output, certificates, certificate, clock
        ):
            continue
        _print_certificate(config, certificate)
        try:
            await _hooks(config, certificate)
        except HookFailed as error:
            _print(config, {"event": "hook failed", "reason": str(error)}, f"hook failed: {error}")
    await asyncio.Event().wait()


async def _print_errors(config: CommandConfig, certificates: Certificates) -> None:
    printed = not_taken_up = None
    async for status in certificates.statuses():
        if status.not_taken_up is not None and status.not_taken_up != not_taken_up:
            not_taken_up = status.not_taken_up
            said = f"the files of an earlier run are not used: {not_taken_up}"
            _print(config, {"event": "not taken up", "reason": not_taken_up}, said)
        if status.last_error is not None and status.last_error != printed:
            _print(config, {"event": "error", "reason": status.last_error}, status.last_error)
        printed = status.last_error
    await asyncio.Event().wait()


async def _hooks(config: CommandConfig, certificate: Certificate) -> None:
    directory = config.output.directory if config.output is not None else None
    await run_hooks(config.hook, certificate, directory=directory)


class _FailedTries:
    """Remembers why the newest try of an attempt failed, while the attempt still goes on.

    Only a finished attempt has its reason in the status. An attempt has several tries, so the
    timeout may come between them.
    """

    newest: str | None = None

    def add(self, reason: str) -> None:
        self.newest = reason


@asynccontextmanager
async def _opened(
    config: CommandConfig, clock: Clock
) -> AsyncIterator[tuple[Certificates, _FailedTries]]:
    failed_tries = _FailedTries()
    async with AsyncExitStack() as stack:
        certificates = await _issuer(
            stack, config.source, clock, failed_tries, earlier=_earlier(config)
        )
        if config.trust != TrustConfig():
            certificates = await stack.enter_async_context(
                with_trust(certificates, config.trust, clock=clock)
            )
        yield certificates, failed_tries


def _earlier(config: CommandConfig) -> EarlierCertificate | None:
    """Return the files that an earlier `watch` wrote; `get` always asks for a certificate."""
    if config.once or config.output is None:
        return None
    # Roots of the user's own are in the files too, and may have been taken back since.
    return OutputFiles(config.output, is_current=config.trust.anchors_path is None)


async def _issuer(
    stack: AsyncExitStack,
    source: Source,
    clock: Clock,
    failed_tries: _FailedTries,
    *,
    earlier: EarlierCertificate | None,
) -> Certificates:
    enter = stack.enter_async_context
    match source:
        case AuthoritySource():
            authority = await enter(
                istio_ca(source.authority, clock=clock, on_failed_try=failed_tries.add)
            )
            return await enter(
                keep_fresh(
                    source.rotation,
                    authority,
                    clock=clock,
                    depends_on=source.authority.files,
                    earlier=earlier,
                )
            )
        case FilesConfig():
            return await enter(follow_files(source, clock=clock))
        case WorkloadApiConfig():
            return await enter(follow_workload_api(source, clock=clock))
        case _:
            assert_never(source)


def _print_certificate(config: CommandConfig, certificate: Certificate) -> None:
    serial, until = f"{certificate.serial:x}", certificate.not_after
    facts: dict[str, object] = {
        "event": "certificate",
        "spiffe_id": str(certificate.spiffe_id),
        "serial": serial,
        "not_before": certificate.not_before.isoformat(),
        "not_after": until.isoformat(),
        "directory": str(config.output.directory) if config.output is not None else None,
    }
    _print(
        config,
        facts,
        f"{certificate.spiffe_id} serial {serial} valid until {until:%Y-%m-%d %H:%M:%S} UTC",
    )


def _print(config: CommandConfig, facts: dict[str, object], sentence: str) -> None:
    sys.stdout.write((json.dumps(facts) if config.as_json else sentence) + "\n")
    sys.stdout.flush()


def _fail(config: CommandConfig, reason: str) -> int:
    if config.as_json:
        _print(config, {"event": "error", "reason": reason}, reason)
    else:
        sys.stderr.write(f"certclient: {reason}\n")
    return 1
