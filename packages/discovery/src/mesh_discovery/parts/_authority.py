"""The certificate authority of a control plane: opened, served, its root replaced in time.

It issues the certificate of the secure port, too, and its bundle authenticates callers.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from istio_config.addresses import split_host_port
from mesh_ca import (
    Authenticator,
    Authority,
    CaError,
    RevocationList,
    RootPolicy,
    Sign,
    StorageError,
    certificate_service,
    is_own_root,
    load_or_create_authority,
    rotating_authority,
    signer_processes,
)
from mesh_discovery._config import DiscoveryConfig
from mesh_discovery._metrics import Metrics
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.push._proxy_configs import trust_bundle_changed
from mesh_discovery.serve._admission import credentials
from mesh_discovery.serve._caller_authentication import authenticating
from mesh_discovery.serve._serving_certificate import ServingCertificate, serving_certificate
from mesh_filewatch import ReadTimedOut, run_in_thread
from xds_server import PushRequest, peer_of

if TYPE_CHECKING:
    from grpc import GenericRpcHandler

    from mesh_protos.ca_pb2 import IstioCertificateResponse

    CertificateService = GenericRpcHandler[bytes, IstioCertificateResponse]

log = logging.getLogger(__name__)

_FILES_TIMEOUT_S = 10.0
"""For reading the authority's files or making them; another process may be at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedAuthority:
    """An authority whose files were read or generated.

    revocations: None for an authority that the user put there; its list is the user's own.
    """

    authority: Authority
    revocations: RevocationList | None
    config: DiscoveryConfig
    registry: CollectorRegistry

    @property
    def root_pem(self) -> bytes:
        """The trust bundle, PEM."""
        return self.authority.root_pem

    @property
    def revocation_list(self) -> Callable[[], bytes] | None:
        """The source of the revocation list, DER; None if that is the user's own."""
        revocations = self.revocations
        return (lambda: revocations.der) if revocations is not None else None

    def authenticating(self) -> AbstractAsyncContextManager[Authenticator]:
        """Give the authenticator of callers: by certificate, and by token where there are rules."""
        return authenticating(self.config.tokens, self.authority, revocations=self.revocations)

    @asynccontextmanager
    async def serving_certificate(
        self, store: ConfigStore, *, metrics: Metrics
    ) -> AsyncIterator[ServingCertificate | None]:
        """Keep the certificate of the secure port while the block runs; None if that is off."""
        if self.config.secure_grpc is None:
            yield None
            return
        kept = serving_certificate(
            self.authority,
            names=lambda: serving_names(self.config, store),
            lifetime=self.config.default_lifetime,
            tls=self.config.serving_tls,
            on_issued=metrics.certificate_expiry.set,
        )
        async with kept as certificate:
            yield certificate

    @asynccontextmanager
    async def serving(self, authenticator: Authenticator) -> AsyncIterator["CertificateService"]:
        """Give the gRPC service that signs workload certificates; its signers run meanwhile."""
        if self.config.ca_signers == 0:
            yield self._service(authenticator, sign=None)
            return
        async with signer_processes(
            self.authority, count=self.config.ca_signers, registry=self.registry
        ) as signers:
            yield self._service(authenticator, sign=signers.sign)

    def _service(self, authenticator: Authenticator, *, sign: Sign | None) -> "CertificateService":
        revocations = self.revocations
        return certificate_service(
            self.authority,
            authenticator,
            credentials_of=lambda context: credentials(peer_of(context)),
            default_lifetime=self.config.default_lifetime,
            max_lifetime=self.config.max_lifetime,
            self_renewal_limit=self.config.self_renewal_limit,
            is_key_revoked=_nothing_revoked if revocations is None else revocations.is_key_revoked,
            sign=sign,
            registry=self.registry,
        )

    @asynccontextmanager
    async def rotating(
        self, *, notify: Callable[[PushRequest], None], certificate: ServingCertificate | None
    ) -> AsyncIterator[None]:
        """Replace the root in time while the block runs, or follow another process that does.

        After each change the serving certificate is issued anew, then workloads are notified.
        """

        def on_change() -> None:
            try:
                if certificate is not None:
                    certificate.issue()
            except CaError as error:
                log.error("serving certificate not renewed", extra={"reason": str(error)})
            notify(trust_bundle_changed())

        opened = rotating_authority(
            self.config.ca_dir,
            self.authority,
            policy=RootPolicy(
                lifetime=self.config.root_lifetime,
                grace=self.config.root_grace,
                spread=self.config.default_lifetime,
                retirement=self.config.max_lifetime,
            ),
            revocations=self.revocations,
            check_interval=self.config.root_check_interval,
            on_change=on_change,
            registry=self.registry,
        )
        async with opened as rotating:
            if rotating.problem is not None:
                log.warning("certificate authority goes on with what was read at first")
            yield


async def open_authority(
    config: DiscoveryConfig, *, trust_domain: str, registry: CollectorRegistry
) -> OpenedAuthority:
    """Read or make the authority's files, which may be on a mount; raises `CaError`."""

    def load() -> OpenedAuthority:
        authority = load_or_create_authority(
            config.ca_dir, trust_domain=trust_domain, root_lifetime=config.root_lifetime
        )
        own = is_own_root(config.ca_dir)
        return OpenedAuthority(
            authority=authority,
            revocations=RevocationList(config.ca_dir, authority) if own else None,
            config=config,
            registry=registry,
        )

    try:
        return await run_in_thread(load, path=config.ca_dir, timeout_s=_FILES_TIMEOUT_S)
    except ReadTimedOut as error:
        raise StorageError(f"{config.ca_dir}: {error.strerror}") from error


def serving_names(config: DiscoveryConfig, store: ConfigStore) -> tuple[str, ...]:
    """Return the names on the secure port's certificate: Istio's, mesh config's and loopback."""
    names = [
        "istiod.istio-system.svc",
        f"istiod.{config.namespace}.svc",
        f"istio-pilot.{config.namespace}.svc",
        *config.custom_hosts,
        "localhost",
        "127.0.0.1",
    ]
    address = store.snapshot.mesh_config.default_config.discovery_address
    if address is not None:
        names.insert(0, split_host_port(address)[0])
    return tuple(dict.fromkeys(name for name in names if name))


def _nothing_revoked(_sha256: str) -> bool:
    return False
