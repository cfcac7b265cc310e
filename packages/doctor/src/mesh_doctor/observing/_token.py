"""Reads the workload's token: its claims are kept, the token itself only for the authority."""

import time
from pathlib import Path

from mesh_doctor._observed import SeenToken, TokenState
from mesh_identity import TokenFileError, fetch_token, token_claims, token_facts, token_fault


async def seen_token(path: Path, *, timeout_s: float) -> tuple[SeenToken, str | None]:
    """Return what is seen of the token, and the token to be shown; None if it is not fit."""
    try:
        token = await fetch_token(path, timeout_s=timeout_s)
    except TokenFileError as error:
        return SeenToken(state=TokenState.UNREADABLE, reason=error.reason), None
    if token is None:
        return SeenToken(state=TokenState.MISSING, reason="does not exist"), None
    now = time.time()
    seen = SeenToken(
        state=TokenState.READ,
        fault=token_fault(token, now=now),
        facts=token_facts(token, now=now),
        claims=token_claims(token),
    )
    return seen, token or None
