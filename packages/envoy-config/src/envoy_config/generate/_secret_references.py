"""References to secrets: certificates and roots that Envoys fetch by name, over SDS.

The agent beside an Envoy has the workload's own (`default`, `ROOTCA`) and those in files. The
control plane has those of Kubernetes' Secrets, over the stream by which everything else comes.
"""

import functools

from envoy_config.generate._messages import (
    config_source_pb2,
    duration,
    grpc_service_pb2,
    secret_pb2,
)
from envoy_config.plan import _envoy_names as names

WORKLOAD_CERTIFICATE = "default"
TRUST_BUNDLE = "ROOTCA"
SYSTEM_ROOTS = "file-root:system"
_SECRET_TIMEOUT_S = 5.0


@functools.lru_cache(maxsize=1000)  # most sockets have the same two
def agent_secret(name: str, *, waits_for_ever: bool = True) -> secret_pb2.SdsSecretConfig:
    """Make the reference to a secret of the agent's; a listener waits for it.

    waits_for_ever: false for files that users name. Envoy does not start before its clusters are
    complete, and one whose file is missing must not keep it from that.
    """
    return secret_pb2.SdsSecretConfig(
        name=name,
        sds_config=config_source_pb2.ConfigSource(
            api_config_source=config_source_pb2.ApiConfigSource(
                api_type=config_source_pb2.ApiConfigSource.GRPC,
                transport_api_version=config_source_pb2.ApiVersion.V3,
                grpc_services=[
                    grpc_service_pb2.GrpcService(
                        envoy_grpc=grpc_service_pb2.GrpcService.EnvoyGrpc(
                            cluster_name=names.SDS_CLUSTER
                        )
                    )
                ],
                set_node_on_first_message_only=True,
            ),
            initial_fetch_timeout=duration(0 if waits_for_ever else _SECRET_TIMEOUT_S),
            resource_api_version=config_source_pb2.ApiVersion.V3,
        ),
    )


def mesh_secret(name: str) -> secret_pb2.SdsSecretConfig:
    """Make the reference to a secret of the control plane's, `kubernetes://...`.

    A listener or a cluster waits for it for some seconds. There may be none of this name yet: the
    other chains of the listener work, and this one does as soon as the secret is there.
    """
    return secret_pb2.SdsSecretConfig(
        name=name,
        sds_config=config_source_pb2.ConfigSource(
            ads=config_source_pb2.AggregatedConfigSource(),
            initial_fetch_timeout=duration(_SECRET_TIMEOUT_S),
            resource_api_version=config_source_pb2.ApiVersion.V3,
        ),
    )


def files_certificate(certificate: str, key: str) -> str:
    """Return the name of a certificate and its key in files at the agent."""
    return f"file-cert:{certificate}~{key}"


def file_roots(path: str) -> str:
    """Return the name of the roots in a file at the agent."""
    return f"file-root:{path}"
