"""Transport sockets of gRPC programs, whose certificates come from files that the agent writes.

The bootstrap's certificate provider `default` reads them (gRFC A29). gRPC checks a server's SPIFFE
id; of a client it checks only that the certificate leads to the trust bundle.
"""

from collections.abc import Sequence

from google.protobuf.message import Message

from envoy_config.generate._messages import (
    base_pb2,
    common_pb2,
    packed,
    string_pb2,
    tls_pb2,
    wrappers_pb2,
)
from envoy_config.generate._secret_references import TRUST_BUNDLE, WORKLOAD_CERTIFICATE

PROVIDER = "default"
"""The name of the provider in the bootstrap file."""


def client_socket(peers: Sequence[str]) -> base_pb2.TransportSocket:
    """Make a cluster's socket: the server must be one of these.

    Without peers, every workload with a certificate of our CA is accepted.
    """
    return _socket(tls_pb2.UpstreamTlsContext(common_tls_context=_common(peers)))


def server_socket() -> base_pb2.TransportSocket:
    """Make a listener's socket: a client must show a certificate."""
    context = tls_pb2.DownstreamTlsContext(
        common_tls_context=_common(()),
        require_client_certificate=wrappers_pb2.BoolValue(value=True),
    )
    return _socket(context)


def _common(peers: Sequence[str]) -> tls_pb2.CommonTlsContext:
    context = common_pb2.CertificateValidationContext(
        ca_certificate_provider_instance=_provided(TRUST_BUNDLE)
    )
    # The typed matchers that replace this field in Envoy are unknown to gRPC (gRFC A29).
    context.match_subject_alt_names.extend(string_pb2.StringMatcher(exact=peer) for peer in peers)
    return tls_pb2.CommonTlsContext(
        tls_certificate_provider_instance=_provided(WORKLOAD_CERTIFICATE),
        validation_context=context,
    )


def _provided(certificate_name: str) -> common_pb2.CertificateProviderPluginInstance:
    return common_pb2.CertificateProviderPluginInstance(
        instance_name=PROVIDER, certificate_name=certificate_name
    )


def _socket(context: Message) -> base_pb2.TransportSocket:
    return base_pb2.TransportSocket(
        name="envoy.transport_sockets.tls", typed_config=packed(context)
    )
