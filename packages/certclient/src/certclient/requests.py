"""The requests library with a TLS context that follows the rotation; needs the extra `requests`."""

from collections.abc import Collection
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from certclient.feed._certificates import Certificates
from certclient.tls._authorization import Authorize
from certclient.tls._contexts import client_context


def requests_adapter(
    certificates: Certificates,
    authorize: Authorize | None = None,
    *,
    trust_domains: Collection[str] = (),
) -> HTTPAdapter:
    """Make an adapter for `Session.mount("https://", ...)`; the arguments are `client_context`'s.

    What `verify` and `cert` of a session or a request say has no effect: each peer is verified by
    the newest roots and its SPIFFE id, and gets the newest certificate.
    """
    return _Adapter(client_context(certificates, authorize, trust_domains=trust_domains))


class _Adapter(HTTPAdapter):
    def __init__(self, context: object) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *given: Any, **named: Any) -> None:
        super().init_poolmanager(*given, **named, ssl_context=self._context, assert_hostname=False)

    def build_connection_pool_key_attributes(
        self,
        request: requests.PreparedRequest,
        verify: Any,
        cert: Any = None,
    ) -> Any:
        host, _ = super().build_connection_pool_key_attributes(request, verify, cert)
        # What is left out names roots and a certificate of its own, which the context refuses.
        # Peers have SPIFFE ids in place of host names, and the context checks these.
        return host, {"ssl_context": self._context, "assert_hostname": False}

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Set nothing on the connection: the context has it."""
