"""Where Envoy gets the workload certificate: from us, or from who serves its socket already."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import certclient
import mesh_sds
from mesh_agent._config import AgentConfig
from mesh_agent.identity._certificate_secrets import WORKLOAD_CERTIFICATE, CertificateSecrets
from mesh_agent.identity._file_secrets import NamedSecrets, file_secrets, forgetting_unwatched
from mesh_agent.identity._learned_roots import (
    CERTIFICATE_AUTHORITY,
    further_roots,
    learn_from_answers,
)
from mesh_identity import LearnedRoots
from mesh_lifecycle import in_background

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSecrets:
    """We keep the certificate fresh, and serve it where there is an Envoy to serve it to."""

    certificates: certclient.TrustingCertificates
    server: mesh_sds.SdsServer | None = None
    files: certclient.FileSecrets | None = None

    def describe(self) -> Mapping[str, object]:
        """The certificate held, and the serials that Envoy works with: they should be one."""
        latest = self.certificates.latest
        held: dict[str, object] = {}
        if latest is not None:
            held = {
                "serial": f"{latest.serial:x}",
                "not_before": latest.not_before.isoformat(),
                "not_after": latest.not_after.isoformat(),
            }
        return {
            **held,
            "last_error": self.certificates.last_error,
            "in_use": sorted(self.serials_in_use()),
        }

    def serials_in_use(self) -> set[str]:
        """Of the certificates that Envoys have accepted; two while a change is under way."""
        return {
            delivery.accepted.serial
            for subscriber in (() if self.server is None else self.server.subscribers())
            for delivery in subscriber.secrets
            if delivery.name == WORKLOAD_CERTIFICATE
            and delivery.accepted is not None
            and delivery.accepted.serial is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSecrets:
    """Somebody else, SPIRE perhaps, serves the socket: then the certificate is theirs."""

    socket: mesh_sds.ForeignSocket

    def describe(self) -> Mapping[str, object]:
        """Who has it; what they serve is between them and Envoy."""
        return {"served_by": str(self.socket.path), "apis": sorted(self.socket.apis)}


@asynccontextmanager
async def workload_secrets(
    config: AgentConfig, learned: LearnedRoots | None = None
) -> AsyncIterator[OwnSecrets | ForeignSecrets]:
    """See that Envoy finds its secrets at the socket for as long as the block runs.

    Raises `mesh_sds.SdsError` when the socket can be neither served nor used.
    """
    path = config.secrets.socket_path
    choice = await mesh_sds.choose_socket(path.parent, path.name)
    if isinstance(choice, mesh_sds.ForeignSocket):
        log.info(
            "the workload certificate is served by another process",
            extra={"socket": str(path), "apis": sorted(choice.apis)},
        )
        yield ForeignSecrets(socket=choice)
        return
    async with (
        certificates_alone(config, learned) as own,
        file_secrets(config.output) as files,
        mesh_sds.serving(
            config.secrets, NamedSecrets(CertificateSecrets(own.certificates), files)
        ) as server,
        forgetting_unwatched(files, server),
    ):
        yield replace(own, server=server, files=files)


@asynccontextmanager
async def certificates_alone(
    config: AgentConfig, learned: LearnedRoots | None = None
) -> AsyncIterator[OwnSecrets]:
    """Keep the certificate fresh, and in its files if they are wanted; serve it to nobody."""
    async with AsyncExitStack() as stack:
        kept = await stack.enter_async_context(_kept_certificates(config, learned))
        certificates = await stack.enter_async_context(certclient.with_trust(kept, config.trust))
        if config.output is not None:
            await stack.enter_async_context(certclient.output_files(config.output, certificates))
        yield OwnSecrets(certificates=certificates)


@asynccontextmanager
async def _kept_certificates(
    config: AgentConfig, learned: LearnedRoots | None
) -> AsyncIterator[certclient.Certificates]:
    """Certificates that we renew, or that somebody else puts into files."""
    if config.authority is None:
        if config.files is None:
            raise ValueError("a workload has an authority or files, this one has neither")
        async with certclient.follow_files(config.files) as certificates:
            yield certificates
        return
    async with AsyncExitStack() as stack:
        authority = await stack.enter_async_context(
            certclient.istio_ca(
                config.authority, further_roots=further_roots(learned, CERTIFICATE_AUTHORITY)
            )
        )
        certificates = await stack.enter_async_context(
            certclient.keep_fresh(config.rotation, authority, depends_on=config.authority.files)
        )
        if learned is not None:
            learning = _learn(certificates, learned)
            await stack.enter_async_context(in_background(learning, name="learned roots"))
        yield certificates


async def _learn(certificates: certclient.Certificates, learned: LearnedRoots) -> None:
    await learn_from_answers(certificates, learned)
    await asyncio.Event().wait()  # rotation has stopped, and whoever nested the blocks leaves ours
