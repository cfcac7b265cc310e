"""Keeps a workload's SPIFFE certificate fresh, for all parts of a program that use it.

One loop renews the certificate and publishes it; secret servers, files and TLS contexts subscribe.
The authority that signs it is anything with the method of `CertificateAuthority`.

Modules are loaded when they are first used: not every program needs all, and the command catches
Ctrl-C before anything takes time.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from certclient._errors import (
    AuthorityUnavailable,
    CertClientError,
    CertificateRejected,
    FeedClosed,
    HookFailed,
    InvalidConfig,
    InvalidPem,
    NoCertificate,
    RenewalFailed,
    SigningRefused,
    SourceUnavailable,
)

if TYPE_CHECKING:
    from certclient._thread import CertificatesInThread
    from certclient.authorities._authority import CertificateAuthority, RetryingAuthority
    from certclient.authorities._istio_ca import istio_ca
    from certclient.authorities._istio_ca_config import IstioCaConfig
    from certclient.authorities._workload_api import WorkloadApiConfig, follow_workload_api
    from certclient.feed._certificates import CertificateChanges, Certificates, RotationStatus
    from certclient.files._file_certificates import follow_files
    from certclient.files._file_secrets import FileSecrets, FileStatus, file_secrets
    from certclient.files._files_config import FilesConfig, mounted_files
    from certclient.files._output_files import OutputFilesConfig, output_files, write_files
    from certclient.files._secret_names import FileSecretsConfig
    from certclient.files._secret_reader import FileState
    from certclient.files._stored_certificate import CertificateFile, StoredCertificate, stored
    from certclient.rotation._rotation import keep_fresh
    from certclient.rotation._rotation_config import RotationConfig
    from certclient.rotation._schedule import renewal_time
    from certclient.rotation._taking_up import EarlierCertificate
    from certclient.tls._authorization import (
        Authorize,
        authorize_ids,
        authorize_namespace,
        authorize_service_account,
    )
    from certclient.tls._contexts import client_context, server_context
    from certclient.tls._grpc_credentials import (
        grpc_authorizer,
        grpc_channel,
        grpc_server_credentials,
    )
    from certclient.tls._trust_bundle import TrustingCertificates, with_trust
    from certclient.tls._trust_config import TrustConfig
    from certclient.x509._certificate import Certificate
    from certclient.x509._key_types import KeyEncoding, KeyType
    from certclient.x509._pem import KeyPair, RevocationLists, Roots
    from mesh_identity import SYSTEM, InvalidSpiffeId, SpiffeId, SystemRoots

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
    # the certificate of an earlier run
    "CertificateFile",
    "EarlierCertificate",
    "StoredCertificate",
    "stored",
    # authorities
    "SYSTEM",
    "CertificateAuthority",
    "IstioCaConfig",
    "RetryingAuthority",
    "SystemRoots",
    "istio_ca",
    # certificates that an external source renews
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
    # for programs without an event loop
    "CertificatesInThread",
    # trust
    "TrustConfig",
    "TrustingCertificates",
    "with_trust",
    # which peers may connect
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
    "NoCertificate",
    "RenewalFailed",
    "SigningRefused",
    "SourceUnavailable",
]

_LOADED_WHEN_USED = {
    "CertificatesInThread": "._thread",
    "CertificateAuthority": ".authorities._authority",
    "RetryingAuthority": ".authorities._authority",
    "istio_ca": ".authorities._istio_ca",
    "IstioCaConfig": ".authorities._istio_ca_config",
    "WorkloadApiConfig": ".authorities._workload_api",
    "follow_workload_api": ".authorities._workload_api",
    "CertificateChanges": ".feed._certificates",
    "Certificates": ".feed._certificates",
    "RotationStatus": ".feed._certificates",
    "follow_files": ".files._file_certificates",
    "FileSecrets": ".files._file_secrets",
    "FileStatus": ".files._file_secrets",
    "file_secrets": ".files._file_secrets",
    "FilesConfig": ".files._files_config",
    "mounted_files": ".files._files_config",
    "OutputFilesConfig": ".files._output_files",
    "output_files": ".files._output_files",
    "write_files": ".files._output_files",
    "FileSecretsConfig": ".files._secret_names",
    "FileState": ".files._secret_reader",
    "CertificateFile": ".files._stored_certificate",
    "StoredCertificate": ".files._stored_certificate",
    "stored": ".files._stored_certificate",
    "keep_fresh": ".rotation._rotation",
    "RotationConfig": ".rotation._rotation_config",
    "renewal_time": ".rotation._schedule",
    "EarlierCertificate": ".rotation._taking_up",
    "Authorize": ".tls._authorization",
    "authorize_ids": ".tls._authorization",
    "authorize_namespace": ".tls._authorization",
    "authorize_service_account": ".tls._authorization",
    "client_context": ".tls._contexts",
    "server_context": ".tls._contexts",
    "grpc_authorizer": ".tls._grpc_credentials",
    "grpc_channel": ".tls._grpc_credentials",
    "grpc_server_credentials": ".tls._grpc_credentials",
    "TrustingCertificates": ".tls._trust_bundle",
    "with_trust": ".tls._trust_bundle",
    "TrustConfig": ".tls._trust_config",
    "Certificate": ".x509._certificate",
    "KeyEncoding": ".x509._key_types",
    "KeyType": ".x509._key_types",
    "KeyPair": ".x509._pem",
    "RevocationLists": ".x509._pem",
    "Roots": ".x509._pem",
    "InvalidSpiffeId": "mesh_identity",
    "SYSTEM": "mesh_identity",
    "SpiffeId": "mesh_identity",
    "SystemRoots": "mesh_identity",
}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home, __name__), name)
        return value
