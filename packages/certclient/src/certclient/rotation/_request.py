"""One request for a certificate: key, signing request, the authority's answer, and its check.

Every way to fail is a value with the reason in words; the loop in `_rotation` decides what follows.
"""

import logging
from datetime import UTC, datetime

import msgspec

from certclient._errors import CertClientError, CertificateRejected, SigningRefused
from certclient.authorities._authority import CertificateAuthority
from certclient.rotation._rotation_config import RotationConfig
from certclient.rotation._schedule import answer_timeout
from certclient.rotation._timeout import within
from certclient.x509._acceptance import accept
from certclient.x509._certificate import Certificate
from certclient.x509._keys import PrivateKey, new_private_key, signing_request
from mesh_lifecycle import Clock

log = logging.getLogger("certclient.rotation")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request gave no certificate.

    refused: there was an answer, and the same request would get the same one again.
    """

    reason: str
    refused: bool


class CertificateRequests:
    """Makes requests to one authority, one at a time."""

    def __init__(
        self, config: RotationConfig, authority: CertificateAuthority, clock: Clock
    ) -> None:
        self._config = config
        self._authority = authority
        self._clock = clock
        self._pending_key: PrivateKey | None = None

    async def make(self, *, remaining_s: float) -> Certificate | Failure:
        """Return the certificate that the authority issued, checked; or why there is none.

        remaining_s: how long the certificate in use is still valid, which bounds the wait.
        """
        timeout_s = answer_timeout(self._config.answer_timeout_s, remaining_s=remaining_s)
        try:
            certificate = await self._certificate(timeout_s)
        except TimeoutError as error:
            reason = f"no answer within {timeout_s:.1f} s"
            if isinstance(error.__cause__, CertClientError):
                reason += f", and the try before failed: {error.__cause__}"
            return Failure(reason=reason, refused=False)
        except (SigningRefused, CertificateRejected) as error:
            self._pending_key = None
            return Failure(reason=str(error), refused=True)
        except CertClientError as error:
            return Failure(reason=str(error), refused=False)
        except OSError as error:
            # Of the machine, such as no free file descriptor: a trial handshake needs some.
            return Failure(reason=f"{type(error).__name__}: {error}", refused=False)
        except Exception as error:
            # The authority is the caller's object, and a bug in it must not end rotation.
            log.exception("certificate authority client failed unexpectedly")
            return Failure(reason=f"unexpected {type(error).__name__}", refused=True)
        self._pending_key = None
        return certificate

    async def _certificate(self, timeout_s: float) -> Certificate:
        config = self._config
        # A key without a certificate is used for the next attempt too: generating an RSA key
        # every few seconds of an outage would cost too much.
        key = self._pending_key or await new_private_key(config.key_type)
        self._pending_key = key
        chain = await within(
            self._clock,
            timeout_s,
            self._authority.sign(signing_request(key, config.spiffe_id), lifetime=config.lifetime),
            name="certificate signing",
        )
        return accept(
            chain,
            key=key,
            spiffe_id=config.spiffe_id,
            now=datetime.fromtimestamp(self._clock.now(), UTC),
            key_encoding=config.key_encoding,
        )
