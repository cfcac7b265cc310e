"""Authenticates callers: by a token that a known key signed, or by a certificate of the mesh."""

import logging
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from mesh_ca import (
    Authenticator,
    Authority,
    ClientCertificateAuthenticator,
    FirstOf,
    JwksSource,
    JwtAuthenticator,
    RemoteJwksConfig,
    RevocationList,
    VerificationKeys,
    remote_jwks,
)
from mesh_discovery.settings._tokens import TokenRule

log = logging.getLogger(__name__)


@asynccontextmanager
async def authenticating(
    tokens: TokenRule | None, authority: Authority, *, revocations: RevocationList | None
) -> AsyncIterator[Authenticator]:
    """Give an authenticator while the block runs; raises `CaError` for unusable keys."""
    by_certificate = (
        ClientCertificateAuthenticator(is_revoked=revocations.is_revoked)
        if revocations is not None
        else ClientCertificateAuthenticator()
    )
    if tokens is None:
        log.warning(
            "no tokens are accepted: only workloads that have a certificate can get another",
            extra={"change": "--jwt-issuer with --jwks-file or --jwks-url, or JWT_RULE"},
        )
        yield by_certificate
        return
    async with AsyncExitStack() as stack:
        by_token = JwtAuthenticator(
            tokens.issuer,
            tokens.audiences,
            jwks=await _keys(tokens, stack),
            trust_domain=authority.trust_domain,
        )
        # A token first: it is the newer proof, and restarts the limit of renewals.
        yield FirstOf([by_token, by_certificate])


async def _keys(tokens: TokenRule, stack: AsyncExitStack) -> VerificationKeys:
    if tokens.jwks_file is not None:
        return JwksSource(tokens.jwks_file)
    if tokens.jwks:
        return JwksSource(_inline(tokens.jwks, stack))
    fetched = RemoteJwksConfig(url=tokens.jwks_url, issuer=tokens.issuer)
    return await stack.enter_async_context(remote_jwks(fetched))


def _inline(jwks: str, stack: AsyncExitStack) -> Path:
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="mesh-discovery-"))
    file = Path(directory, "jwks.json")
    file.write_text(jwks)
    return file
