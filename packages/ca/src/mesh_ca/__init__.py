"""A mesh's certificate authority: signs certificates for workloads that prove who they are.

The parts are loaded when they are first used: a signer process needs few of them.
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it, without loading `typing`
if TYPE_CHECKING:
    from mesh_ca._errors import (
        CaError,
        CsrError,
        FetchError,
        IdentityError,
        LifetimeError,
        NotAuthenticated,
        NotReadyError,
        SignersUnavailable,
        StorageError,
    )
    from mesh_ca.authority._authority import Authority, Issued
    from mesh_ca.authority._keys import KeyType
    from mesh_ca.authority._signer import Signer, SignerFiles, signer_from_pem
    from mesh_ca.callers._authenticator import Authenticator, Caller, Credentials, FirstOf
    from mesh_ca.callers._client_certificate import ClientCertificateAuthenticator
    from mesh_ca.callers._jwks import JwksSource, VerificationKey, VerificationKeys
    from mesh_ca.callers._jwt import JwtAuthenticator
    from mesh_ca.callers._remote_jwks import (
        RemoteJwks,
        RemoteJwksConfig,
        fetch_key_set,
        remote_jwks,
    )
    from mesh_ca.callers._token_issuer import TokenIssuer
    from mesh_ca.directory._loading import load_or_create_authority
    from mesh_ca.directory._own_root import RootPolicy
    from mesh_ca.directory._reading import is_own_root, load_signer
    from mesh_ca.directory._root_changes import replace_root
    from mesh_ca.directory._rotation import RotatingAuthority, rotating_authority
    from mesh_ca.revocation._revocation_list import RevocationList
    from mesh_ca.service._certificate_service import Sign, certificate_service, grpc_credentials
    from mesh_ca.signers._signer_processes import (
        SignerLimits,
        SignerProcesses,
        signer_processes,
    )

__all__ = [
    # the authority
    "Authority",
    "Issued",
    "KeyType",
    "load_or_create_authority",
    # rotation of its own certificates, and revocation
    "RotatingAuthority",
    "RevocationList",
    "RootPolicy",
    "is_own_root",
    "rotating_authority",
    "replace_root",
    # the signer
    "Signer",
    "SignerFiles",
    "load_signer",
    "signer_from_pem",
    # signing in further processes
    "SignerLimits",
    "SignerProcesses",
    "signer_processes",
    # authentication of callers
    "Authenticator",
    "Caller",
    "ClientCertificateAuthenticator",
    "Credentials",
    "FirstOf",
    "JwksSource",
    "JwtAuthenticator",
    "RemoteJwks",
    "RemoteJwksConfig",
    "VerificationKey",
    "VerificationKeys",
    "fetch_key_set",
    "remote_jwks",
    # the gRPC service
    "Sign",
    "certificate_service",
    "grpc_credentials",
    # tokens without Kubernetes
    "TokenIssuer",
    # errors
    "CaError",
    "CsrError",
    "FetchError",
    "IdentityError",
    "LifetimeError",
    "NotAuthenticated",
    "NotReadyError",
    "SignersUnavailable",
    "StorageError",
]

_LOADED_WHEN_USED = {
    "Authenticator": "callers._authenticator",
    "Authority": "authority._authority",
    "CaError": "_errors",
    "Caller": "callers._authenticator",
    "ClientCertificateAuthenticator": "callers._client_certificate",
    "Credentials": "callers._authenticator",
    "CsrError": "_errors",
    "FetchError": "_errors",
    "FirstOf": "callers._authenticator",
    "IdentityError": "_errors",
    "Issued": "authority._authority",
    "JwksSource": "callers._jwks",
    "JwtAuthenticator": "callers._jwt",
    "KeyType": "authority._keys",
    "LifetimeError": "_errors",
    "NotAuthenticated": "_errors",
    "NotReadyError": "_errors",
    "RemoteJwks": "callers._remote_jwks",
    "RemoteJwksConfig": "callers._remote_jwks",
    "RevocationList": "revocation._revocation_list",
    "RootPolicy": "directory._own_root",
    "RotatingAuthority": "directory._rotation",
    "Sign": "service._certificate_service",
    "Signer": "authority._signer",
    "SignerFiles": "authority._signer",
    "SignerLimits": "signers._signer_processes",
    "SignerProcesses": "signers._signer_processes",
    "SignersUnavailable": "_errors",
    "StorageError": "_errors",
    "TokenIssuer": "callers._token_issuer",
    "VerificationKey": "callers._jwks",
    "VerificationKeys": "callers._jwks",
    "certificate_service": "service._certificate_service",
    "grpc_credentials": "service._certificate_service",
    "is_own_root": "directory._reading",
    "load_or_create_authority": "directory._loading",
    "load_signer": "directory._reading",
    "fetch_key_set": "callers._remote_jwks",
    "remote_jwks": "callers._remote_jwks",
    "replace_root": "directory._root_changes",
    "rotating_authority": "directory._rotation",
    "signer_from_pem": "authority._signer",
    "signer_processes": "signers._signer_processes",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
