"""A mesh's certificate authority: signs certificates for workloads that prove who they are."""

from mesh_ca._errors import (
    CaError,
    CsrError,
    FetchError,
    IdentityError,
    LifetimeError,
    NotAuthenticated,
    NotReadyError,
    StorageError,
)
from mesh_ca.authority._authority import Authority, Issued
from mesh_ca.authority._keys import KeyType
from mesh_ca.authority._signer import Signer, SignerFiles, signer_from_pem
from mesh_ca.callers._authenticator import Authenticator, Caller, Credentials, FirstOf
from mesh_ca.callers._client_certificate import ClientCertificateAuthenticator
from mesh_ca.callers._jwks import JwksSource, VerificationKey, VerificationKeys
from mesh_ca.callers._jwt import JwtAuthenticator
from mesh_ca.callers._remote_jwks import RemoteJwks, RemoteJwksConfig, remote_jwks
from mesh_ca.callers._token_issuer import TokenIssuer
from mesh_ca.directory._loading import load_or_create_authority
from mesh_ca.directory._own_root import RootPolicy
from mesh_ca.directory._reading import is_own_root, load_signer
from mesh_ca.directory._root_changes import replace_root
from mesh_ca.directory._rotation import RotatingAuthority, rotating_authority
from mesh_ca.revocation._revocation_list import RevocationList
from mesh_ca.service._certificate_service import certificate_service, grpc_credentials

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
    "remote_jwks",
    # the gRPC service
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
    "StorageError",
]
