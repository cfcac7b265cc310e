"""A workload's SPIFFE id, the token and roots of its connection to the control plane, and
diagnosis.

The diagnosis says why a token is not valid or why a server can't be reached.

The parts are loaded when they are first used, so that reading an id loads no event loop.
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it, without loading `typing`
if TYPE_CHECKING:
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

_LOADED_WHEN_USED = {
    "checked_segment": "_spiffe",
    "checked_trust_domain": "_spiffe",
    "ClientCertificate": "_client_certificate",
    "described_roots": "_presented",
    "ExpectedName": "_unreachable",
    "Fault": "_unreachable",
    "fetch_addresses": "_addresses",
    "fetch_client_certificate": "_client_certificate",
    "fetch_system_roots": "_system_roots",
    "fetch_token": "_token_file",
    "find_fault": "_unreachable",
    "HostNotResolved": "_addresses",
    "InvalidSpiffeId": "_spiffe",
    "LearnedRoots": "_learned_roots",
    "memory_file": "_memory_file",
    "NoClientCertificate": "_client_certificate",
    "NoSystemRoots": "_system_roots",
    "NoUsableRoots": "_roots_context",
    "roots_context": "_roots_context",
    "spiffe_prefix": "_spiffe",
    "SpiffeId": "_spiffe",
    "SYSTEM": "_system_roots",
    "system_root_files": "_system_roots",
    "SystemRoots": "_system_roots",
    "token_claims": "_token",
    "token_facts": "_token",
    "token_fault": "_token",
    "TokenClaims": "_token",
    "TokenFileError": "_token_file",
    "TrustedRoots": "_unreachable",
    "Unreachable": "_unreachable",
    "Validity": "_presented",
    "why_unreachable": "_unreachable",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
