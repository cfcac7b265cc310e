"""A mesh's certificate authority: signs workload certificates for whoever proves who it is."""

from mesh_ca._authentication import (
    Authenticator,
    Caller,
    ClientCertificateAuthenticator,
    Credentials,
    FirstOf,
)
from mesh_ca._authority import Authority, Issued
from mesh_ca._directory import (
    is_own_root,
    load_or_create_authority,
    load_signer,
    replace_root,
)
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
from mesh_ca._jwks import JwksSource, VerificationKey, VerificationKeys
from mesh_ca._jwt import JwtAuthenticator
from mesh_ca._keeper import RotatingAuthority, rotating_authority
from mesh_ca._keys import KeyType
from mesh_ca._remote_jwks import RemoteJwks, RemoteJwksConfig, remote_jwks
from mesh_ca._revocation import RevocationList
from mesh_ca._root import RootPolicy
from mesh_ca._service import certificate_service, grpc_credentials
from mesh_ca._signer import Signer, SignerFiles, signer_from_pem
from mesh_ca._tokens import TokenIssuer

__all__ = [
    # the authority
    "Authority",
    "Issued",
    "KeyType",
    "load_or_create_authority",
    # its own certificates over time
    "RotatingAuthority",
    "RevocationList",
    "RootPolicy",
    "is_own_root",
    "rotating_authority",
    "replace_root",
    # what it signs with
    "Signer",
    "SignerFiles",
    "load_signer",
    "signer_from_pem",
    # who calls
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
