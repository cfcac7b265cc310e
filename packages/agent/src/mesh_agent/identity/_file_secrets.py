"""The source of all secrets that Envoy asks for: the workload's, and those named by a file."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import certclient
import mesh_sds
from mesh_agent.identity._certificate_secrets import (
    TRUST_BUNDLE,
    WORKLOAD_CERTIFICATE,
    CertificateSecrets,
)
from mesh_lifecycle import in_background

log = logging.getLogger(__name__)

_MOST_LOGGED = 100


class NamedSecrets:
    """Has `default` and `ROOTCA` from the certificate, `file-cert:` and `file-root:` from files.

    No other name is ever answered here. The control plane sends the secrets of gateways,
    `kubernetes://...`, with the configuration.
    """

    def __init__(self, workload: CertificateSecrets, files: certclient.FileSecrets) -> None:
        self._workload = workload
        self._files = files
        self._logged: set[str] = set()

    def get(self, name: str) -> mesh_sds.TlsCertificate | mesh_sds.TrustBundle | None:
        if name in {WORKLOAD_CERTIFICATE, TRUST_BUNDLE}:
            return self._workload.get(name)
        if not self._files.serves(name):
            self._log_once(name)
            return None
        match self._files.get(name):
            case certclient.KeyPair(chain_pem=chain, private_key_pem=key):
                return mesh_sds.TlsCertificate(chain_pem=chain, private_key_pem=key)
            case certclient.Roots(roots_pem=roots):
                return mesh_sds.TrustBundle(roots_pem=roots)
            case _:
                return None

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        sources = (self._workload.changes(), self._files.changes())
        coming = {asyncio.create_task(_next(each), name="secrets"): each for each in sources}
        try:
            while coming:
                done, _ = await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    source = coming.pop(task)
                    if (names := task.result()) is not None:
                        coming[asyncio.create_task(_next(source), name="secrets")] = source
                        yield names
        finally:
            for task in coming:
                task.cancel()
            if coming:
                await asyncio.wait(coming)

    def _log_once(self, name: str) -> None:
        if name not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(name)
            log.warning(
                "envoy asks for a secret that is not served: name it default, ROOTCA,"
                " file-cert:CERTIFICATE~KEY or file-root:PATH",
                extra={"secret": name[:300]},
            )


async def _next(changes: AsyncIterator[frozenset[str]]) -> frozenset[str] | None:
    return await anext(changes, None)


@asynccontextmanager
async def file_secrets(
    output: certclient.OutputFilesConfig | None,
) -> AsyncIterator[certclient.FileSecrets]:
    """Yield the files that Envoy may name; the agent's own output directory is not among them."""
    directory = None if output is None else output.directory
    config = certclient.FileSecretsConfig(output_directory=directory)
    async with certclient.file_secrets(config) as files:
        yield files


@asynccontextmanager
async def forgetting_unwatched(
    files: certclient.FileSecrets, server: mesh_sds.SdsServer
) -> AsyncIterator[None]:
    """While the block runs, stop following files that no Envoy is subscribed to any more."""
    async with in_background(_forget_unwatched(files, server), name="secrets by file"):
        yield


async def _forget_unwatched(files: certclient.FileSecrets, server: mesh_sds.SdsServer) -> None:
    while True:
        watched = _watched(server.subscribers())
        files.forget_all_but(watched)
        await server.wait_until(partial(_is_other, watched))


def _is_other(watched: frozenset[str], subscribers: tuple[mesh_sds.Subscriber, ...]) -> bool:
    return _watched(subscribers) != watched


def _watched(subscribers: tuple[mesh_sds.Subscriber, ...]) -> frozenset[str]:
    return frozenset[str]().union(*(each.names for each in subscribers))
