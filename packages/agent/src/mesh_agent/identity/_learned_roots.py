"""Roots that the agent learns from its control plane, beside those of the operator's root file.

A mesh's root is replaced by announcing the new one over connections verified by the old one. The
agent keeps what is announced for its own connections, because the root file may not be rewritten.
"""

from collections.abc import Callable
from pathlib import Path

import certclient
from mesh_identity import LearnedRoots
from mesh_lifecycle import SystemClock

CERTIFICATE_AUTHORITY = "certificate authority"
CONFIGURATION = "configuration"
"""The connections that roots are learned over."""


def learned_roots(file: Path | None) -> LearnedRoots | None:
    """Return the roots learned so far, to be added to; None where the agent learns no roots."""
    return None if file is None else LearnedRoots(file, now=SystemClock().now)


def further_roots(learned: LearnedRoots | None, connection: str) -> Callable[[bytes], bytes] | None:
    """Return the function by which a connection gets its further roots."""
    if learned is None:
        return None
    return lambda file_pem: learned.further_roots(connection, file_pem)


async def learn_from_answers(certificates: certclient.Certificates, learned: LearnedRoots) -> None:
    """Learn the root that each certificate came with; returns when rotation stops."""
    async for certificate in certificates.changes():
        # One of an earlier run came over no connection of this one.
        if certificate is not None and not certificates.status.taken_up:
            # Only the root that signs now: the bundle may have others, of past or future.
            learned.learn(CERTIFICATE_AUTHORITY, certificate.trust_bundle_pem, complete=False)
