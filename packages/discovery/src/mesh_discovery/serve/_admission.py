"""Admission of xDS clients: a caller must prove to be the workload of the proxy it speaks for.

Istio's rules: over TLS a caller must prove its identity, and the SPIFFE id must have the namespace
of the node, and its service account if the node names one. Plaintext callers have no identity. In
Istio they are believed; here they are sent what is public, unless the operator says that they are
to be believed.
"""

from collections.abc import Callable

import grpc

from envoy_config import NodeError, NotServedError, Proxy, accounts_in, as_stranger, parse_proxy
from istio_config.addresses import peer_ip
from istio_config.kinds.mesh_config import DRAIN_TIME, InterceptionMode
from mesh_ca import Authenticator, CaError, Credentials, NotAuthenticated
from mesh_configfile import Duration
from mesh_discovery.serve._drain_time import drain_time_of
from xds_server import Admission, Node, Peer, Refused


class ProxyAdmission:
    """The `Admit` of the xDS server."""

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        domain_suffix: str,
        drain_time: Callable[[], Duration] = lambda: DRAIN_TIME,
        interception: Callable[[], InterceptionMode] = lambda: InterceptionMode.NONE,
        believe_plaintext: bool = False,
    ) -> None:
        """drain_time, interception: return those of Envoys whose node has none.

        believe_plaintext: callers in plaintext are whom their nodes say.
        """
        self._believe_plaintext = believe_plaintext
        self._authenticator = authenticator
        self._domain_suffix = domain_suffix
        self._drain_time = drain_time
        self._interception = interception

    async def __call__(self, node: Node, peer: Peer) -> Admission[Proxy]:
        """Admit the node, or raise `Refused`."""
        identities = await self._identities(peer)
        try:
            is_stranger = not identities and not self._believe_plaintext
            proxy = parse_proxy(
                node,
                domain_suffix=self._domain_suffix,
                source=peer_ip(peer.address),
                # A stranger that is redirected is refused: it has to say so itself.
                mesh_interception=InterceptionMode.NONE if is_stranger else self._interception(),
            )
            if is_stranger:
                proxy = as_stranger(proxy)
        except NotServedError as error:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, str(error)) from error
        except NodeError as error:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        if identities and not any(speaks_for(identity, proxy) for identity in identities):
            wanted = f"namespace {proxy.namespace}"
            if proxy.service_account:
                wanted += f" and service account {proxy.service_account}"
            # The identities are those that the caller itself has shown: naming them leaks nothing.
            raise Refused(
                grpc.StatusCode.PERMISSION_DENIED,
                f"the caller's identity is not of {wanted}, it is {', '.join(identities)[:300]}",
            )
        return Admission(
            identities=identities,
            context=proxy,
            drain_time_s=drain_time_of(node, default=self._drain_time()),
        )

    async def _identities(self, peer: Peer) -> tuple[str, ...]:
        if not peer.encrypted:
            return ()
        try:
            caller = await self._authenticator.authenticate(credentials(peer))
        except NotAuthenticated as error:
            raise Refused(
                grpc.StatusCode.UNAUTHENTICATED,
                error.status_message,
                logged_reason=f"not authenticated: {error}",
            ) from error
        except CaError as error:
            raise Refused(
                grpc.StatusCode.UNAVAILABLE,
                "can't authenticate callers now",
                logged_reason=f"callers can't be authenticated: {error}",
            ) from error
        return caller.identities


def credentials(peer: Peer) -> Credentials:
    """Return a peer's credentials, as authenticators take them."""
    return Credentials(
        metadata=peer.metadata,
        encrypted=peer.encrypted,
        certificate_chain=peer.certificate_chain,
        address=peer.address,
    )


def speaks_for(identity: str, proxy: Proxy) -> bool:
    """Return whether an identity is that of the proxy's workload."""
    accounts = accounts_in(proxy.namespace, (identity,))
    return bool(accounts) and (not proxy.service_account or proxy.service_account in accounts)
