"""What the agent itself trusts its control plane by, beyond the operator's root file.

A mesh's root is replaced by announcing the new one over connections verified by the old one. Envoy
hears of it; so does the agent, for its own connections, whether somebody writes the file or not.
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
    """What was learned before, and will be; None where nothing is to be."""
    return None if file is None else LearnedRoots(file, now=SystemClock().now)


def further_roots(learned: LearnedRoots | None, connection: str) -> Callable[[bytes], bytes] | None:
    """What a connection asks for its further roots."""
    if learned is None:
        return None
    return lambda file_pem: learned.beside(connection, file_pem)


async def learn_from_answers(certificates: certclient.Certificates, learned: LearnedRoots) -> None:
    """Take in the root that each certificate came with; runs until rotation stops."""
    async for certificate in certificates.changes():
        if certificate is not None:
            # The root that signs now: others may be about to, or have just been signed by.
            learned.learn(CERTIFICATE_AUTHORITY, certificate.trust_bundle_pem, whole=False)
