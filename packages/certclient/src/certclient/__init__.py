"""Keeps a workload's SPIFFE certificate fresh and tells everyone who uses it.

One loop renews and publishes; secret servers, files and TLS contexts subscribe to what it
publishes. Whoever signs is behind `CertificateAuthority`.

What only some programs use is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from certclient._authority import CertificateAuthority, RetryingAuthority
from certclient._certificate import Certificate
from certclient._certificates import CertificateChanges, Certificates, RotationStatus
from certclient._errors import (
    AuthorityUnavailable,
    CertClientError,
    CertificateRejected,
    FeedClosed,
    HookFailed,
    InvalidConfig,
    InvalidPem,
    RenewalFailed,
    SigningRefused,
    SourceUnavailable,
)
from certclient._file_certificates import FilesConfig, follow_files, mounted_files
from certclient._file_secrets import FileSecrets, FileState, FileStatus, file_secrets
from certclient._files import OutputFilesConfig, output_files, write_files
from certclient._keys import KeyEncoding, KeyType
from certclient._pem import KeyPair, RevocationLists, Roots
from certclient._rotation import RotationConfig, keep_fresh
from certclient._schedule import renewal_time
from certclient._secret_names import FileSecretsConfig
from certclient._trust import TrustConfig, TrustingCertificates, with_trust
from mesh_identity import SYSTEM, InvalidSpiffeId, SpiffeId, SystemRoots

if TYPE_CHECKING:
    from certclient._authorization import (
        Authorize,
        authorize_ids,
        authorize_namespace,
        authorize_service_account,
    )
    from certclient._grpc_credentials import (
        grpc_authorizer,
        grpc_channel,
        grpc_server_credentials,
    )
    from certclient._istio_ca import IstioCaConfig, istio_ca
    from certclient._tls import client_context, server_context
    from certclient._workload_api import WorkloadApiConfig, follow_workload_api

__all__ = [
    # identity
    "SpiffeId",
    # the certificate and its feed
    "Certificate",
    "CertificateChanges",
    "Certificates",
    "RotationStatus",
    # rotation
    "KeyEncoding",
    "KeyType",
    "RotationConfig",
    "keep_fresh",
    "renewal_time",
    # issuers
    "SYSTEM",
    "CertificateAuthority",
    "IstioCaConfig",
    "RetryingAuthority",
    "SystemRoots",
    "istio_ca",
    # certificates that somebody else renews
    "FileSecrets",
    "FileSecretsConfig",
    "FileState",
    "FileStatus",
    "FilesConfig",
    "KeyPair",
    "RevocationLists",
    "Roots",
    "WorkloadApiConfig",
    "file_secrets",
    "follow_files",
    "follow_workload_api",
    "mounted_files",
    # trust
    "TrustConfig",
    "TrustingCertificates",
    "with_trust",
    # who may connect
    "Authorize",
    "authorize_ids",
    "authorize_namespace",
    "authorize_service_account",
    # subscribers
    "OutputFilesConfig",
    "client_context",
    "grpc_authorizer",
    "grpc_channel",
    "grpc_server_credentials",
    "output_files",
    "server_context",
    "write_files",
    # errors
    "AuthorityUnavailable",
    "CertClientError",
    "CertificateRejected",
    "FeedClosed",
    "HookFailed",
    "InvalidConfig",
    "InvalidPem",
    "InvalidSpiffeId",
    "RenewalFailed",
    "SigningRefused",
    "SourceUnavailable",
]

_LOADED_WHEN_USED = {
    "IstioCaConfig": "_istio_ca",
    "istio_ca": "_istio_ca",
    "WorkloadApiConfig": "_workload_api",
    "follow_workload_api": "_workload_api",
    "Authorize": "_authorization",
    "authorize_ids": "_authorization",
    "authorize_namespace": "_authorization",
    "authorize_service_account": "_authorization",
    "client_context": "_tls",
    "server_context": "_tls",
    "grpc_authorizer": "_grpc_credentials",
    "grpc_channel": "_grpc_credentials",
    "grpc_server_credentials": "_grpc_credentials",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
