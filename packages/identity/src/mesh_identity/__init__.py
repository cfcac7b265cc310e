"""A workload's SPIFFE id, the token and roots of its connection to the control plane, and
diagnosis.

The diagnosis says why a token is not valid or why a server can't be reached.
"""

from mesh_identity._addresses import HostNotResolved, fetch_addresses
from mesh_identity._client_certificate import (
    ClientCertificate,
    NoClientCertificate,
    fetch_client_certificate,
)
from mesh_identity._learned_roots import LearnedRoots
from mesh_identity._memory_file import memory_file
from mesh_identity._presented import Validity, described_roots
from mesh_identity._roots_context import NoUsableRoots, roots_context
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
from mesh_identity._unreachable import (
    ExpectedName,
    Fault,
    TrustedRoots,
    Unreachable,
    find_fault,
    why_unreachable,
)

__all__ = [
    # SPIFFE ids
    "InvalidSpiffeId",
    "SpiffeId",
    "checked_segment",
    "checked_trust_domain",
    "spiffe_prefix",
    # tokens
    "TokenClaims",
    "TokenFileError",
    "fetch_token",
    "token_claims",
    "token_facts",
    "token_fault",
    # client certificates
    "ClientCertificate",
    "NoClientCertificate",
    "fetch_client_certificate",
    "memory_file",
    # the machine's roots
    "SYSTEM",
    "NoSystemRoots",
    "SystemRoots",
    "fetch_system_roots",
    "system_root_files",
    # a TLS client that trusts given roots
    "NoUsableRoots",
    "roots_context",
    # roots that the control plane announces
    "LearnedRoots",
    # a server's addresses
    "HostNotResolved",
    "fetch_addresses",
    # connection failures
    "ExpectedName",
    "Fault",
    "TrustedRoots",
    "Unreachable",
    "Validity",
    "described_roots",
    "find_fault",
    "why_unreachable",
]
