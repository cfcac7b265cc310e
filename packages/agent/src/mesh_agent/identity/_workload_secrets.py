"""Where Envoy gets the workload certificate: from the agent or another process at the socket."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

import certclient
import mesh_sds
from mesh_agent._config import AgentConfig
from mesh_agent.identity._authority_requests import AuthorityRequests, CountedAuthority
from mesh_agent.identity._certificate_secrets import WORKLOAD_CERTIFICATE, CertificateSecrets
from mesh_agent.identity._described_certificates import described_chain, outage_at
from mesh_agent.identity._file_secrets import NamedSecrets, file_secrets, forgetting_unwatched
from mesh_agent.identity._learned_roots import (
    CERTIFICATE_AUTHORITY,
    further_roots,
    learn_from_answers,
)
from mesh_agent.identity._stored_certificate import TrustedOnly
from mesh_identity import LearnedRoots
from mesh_lifecycle import in_background

log = logging.getLogger(__name__)


class OwnSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """The agent keeps the certificate fresh, and serves it over SDS where there is an Envoy."""

    certificates: certclient.TrustingCertificates
    requests: AuthorityRequests | None = None
    server: mesh_sds.SdsServer | None = None
    files: certclient.FileSecrets | None = None

    def describe(self) -> Mapping[str, object]:
        """Return the newest certificate with its chain and roots, and the serials in use.

        outage_at: when there is no identity any more if nothing is issued before.
        """
        latest = self.certificates.latest
        held: dict[str, object] = {}
        if latest is not None:
            held = {
                "serial": f"{latest.serial:x}",
                "not_before": latest.not_before.isoformat(),
                "not_after": latest.not_after.isoformat(),
                "outage_at": outage_at(latest).isoformat(),
                "renews_at": self.certificates.status.renews_at,
                "taken_up": self.certificates.status.taken_up,
                "chain": described_chain(latest.chain_pem),
                "roots": described_chain(latest.trust_bundle_pem),
            }
        return {
            **held,
            "last_error": self.certificates.last_error,
            "not_taken_up": self.certificates.status.not_taken_up,
            "in_use": sorted(self.serials_in_use()),
        }

    def serials_in_use(self) -> set[str]:
        """Return the serials of certificates that Envoys have accepted; two during a renewal."""
        return {
            delivery.accepted.serial
            for subscriber in (() if self.server is None else self.server.subscribers())
            for delivery in subscriber.secrets
            if delivery.name == WORKLOAD_CERTIFICATE
            and delivery.accepted is not None
            and delivery.accepted.serial is not None
        }


class ForeignSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """Another process, SPIRE perhaps, serves the socket: then the certificate comes from there."""

    socket: mesh_sds.ForeignSocket

    def describe(self) -> Mapping[str, object]:
        """Return which socket is served, and with which APIs; the agent sees no secrets of it."""
        return {"served_by": str(self.socket.path), "apis": sorted(self.socket.apis)}


@asynccontextmanager
async def workload_secrets(
    config: AgentConfig,
    learned: LearnedRoots | None = None,
    *,
    listening: socket.socket | None = None,
) -> AsyncIterator[OwnSecrets | ForeignSecrets]:
    """Serve the secrets socket while the block runs, unless another process serves it already.

    listening: a socket of ours that listens there, which settles that.
    Raises `mesh_sds.SdsError` when the socket can be neither served nor used.
    """
    path = config.secrets.socket_path
    choice = None if listening else await mesh_sds.choose_socket(path.parent, path.name)
    if isinstance(choice, mesh_sds.ForeignSocket):
        log.info(
            "the workload certificate is served by another process",
            extra={"socket": str(path), "apis": sorted(choice.apis)},
        )
        yield ForeignSecrets(socket=choice)
        return
    async with (
        fresh_certificates(config, learned) as own,
        file_secrets(config.output) as files,
        mesh_sds.serving(
            config.secrets,
            NamedSecrets(CertificateSecrets(own.certificates), files),
            listening=listening,
        ) as server,
        forgetting_unwatched(files, server),
    ):
        yield replace(own, server=server, files=files)


@asynccontextmanager
async def fresh_certificates(
    config: AgentConfig, learned: LearnedRoots | None = None
) -> AsyncIterator[OwnSecrets]:
    """Keep the certificate fresh, and write it to files if they are wanted; without SDS."""
    requests = AuthorityRequests()
    async with AsyncExitStack() as stack:
        kept = await stack.enter_async_context(_kept_certificates(config, learned, requests))
        certificates = await stack.enter_async_context(certclient.with_trust(kept, config.trust))
        if config.output is not None:
            await stack.enter_async_context(certclient.output_files(config.output, certificates))
        yield OwnSecrets(
            certificates=certificates, requests=None if config.authority is None else requests
        )


@asynccontextmanager
async def _kept_certificates(
    config: AgentConfig, learned: LearnedRoots | None, requests: AuthorityRequests
) -> AsyncIterator[certclient.Certificates]:
    """Yield the certificates: renewed by the agent, or mounted and renewed by the platform."""
    if config.authority is None:
        if config.files is None:
            raise ValueError("a workload has an authority or files, this one has neither")
        async with certclient.follow_files(config.files) as certificates:
            yield certificates
        return
    async with AsyncExitStack() as stack:
        authority = await stack.enter_async_context(
            certclient.istio_ca(
                config.authority,
                on_retry=requests.count_retry,
                further_roots=further_roots(learned, CERTIFICATE_AUTHORITY),
            )
        )
        counted = CountedAuthority(authority, requests)
        file = await _certificate_file(config)
        certificates = await stack.enter_async_context(
            certclient.keep_fresh(
                config.rotation,
                counted,
                depends_on=config.authority.files,
                earlier=None if file is None else _earlier(config, file, learned),
            )
        )
        if file is not None:
            await stack.enter_async_context(certclient.stored(file, certificates))
        if learned is not None:
            learning = _learn(certificates, learned)
            await stack.enter_async_context(in_background(learning, name="learned roots"))
        yield certificates


async def _certificate_file(config: AgentConfig) -> certclient.CertificateFile | None:
    """Return the file that keeps the certificate; None, and there is no file, if none is to."""
    file = certclient.CertificateFile(config.state.certificate)
    if config.state.keeps_certificate:
        return file
    try:
        await file.remove()
    except OSError as error:
        facts = {"file": str(file.path), "reason": error.strerror}
        log.warning("the certificate of an earlier run can't be removed", extra=facts)
    return None


def _earlier(
    config: AgentConfig, file: certclient.CertificateFile, learned: LearnedRoots | None
) -> certclient.EarlierCertificate:
    source = None if config.authority is None else config.authority.root_certificate
    if learned is None or not isinstance(source, Path):
        return file  # the root file is not of the mesh: it says nothing of the mesh's roots
    return TrustedOnly(file, source, learned)


async def _learn(certificates: certclient.Certificates, learned: LearnedRoots) -> None:
    await learn_from_answers(certificates, learned)
    # Rotation has stopped; a background task that returned would count as failed.
    await asyncio.Event().wait()
