"""What a workload shows its control plane and trusts it by, and what is wrong with either."""

from mesh_identity._learned_roots import LearnedRoots
from mesh_identity._spiffe import (
    InvalidSpiffeId,
    SpiffeId,
    checked_segment,
    checked_trust_domain,
    spiffe_prefix,
)
from mesh_identity._system_roots import (
    SYSTEM,
    NoSystemRoots,
    SystemRoots,
    fetch_system_roots,
    system_root_files,
)
from mesh_identity._token import TokenClaims, token_claims, token_facts, token_fault
from mesh_identity._token_file import TokenFileError, fetch_token
from mesh_identity._unreachable import ExpectedName, Trusted, why_unreachable

__all__ = [
    # the workload's name
    "InvalidSpiffeId",
    "SpiffeId",
    "checked_segment",
    "checked_trust_domain",
    "spiffe_prefix",
    # the token that is shown
    "TokenClaims",
    "TokenFileError",
    "fetch_token",
    "token_claims",
    "token_facts",
    "token_fault",
    # the roots that the machine has
    "SYSTEM",
    "NoSystemRoots",
    "SystemRoots",
    "fetch_system_roots",
    "system_root_files",
    # the roots that are learned from the control plane
    "LearnedRoots",
    # why a server can't be connected to
    "ExpectedName",
    "Trusted",
    "why_unreachable",
]
