"""The kinds of Kubernetes that describe services, endpoints and secrets."""

from istio_config.kinds.kubernetes._cluster_objects import ADDRESSES, HOSTS, NAMESPACE, NODE, listed
from istio_config.kinds.kubernetes._config_map import CONFIG_MAP, ConfigMapFields
from istio_config.kinds.kubernetes._endpoints import (
    ENDPOINT_SLICE,
    ENDPOINTS,
    SERVICE_NAME_LABEL,
    AddressType,
    Conditions,
    EndpointAddress,
    EndpointPort,
    EndpointsFields,
    EndpointSliceFields,
    SliceEndpoint,
    TargetReference,
)
from istio_config.kinds.kubernetes._kubernetes_fields import KubernetesFields
from istio_config.kinds.kubernetes._pod import POD, PodSpec, PodStatus
from istio_config.kinds.kubernetes._secret import SECRET, SecretFields
from istio_config.kinds.kubernetes._service import (
    EXPORT_TO,
    KUBERNETES_SERVICE,
    TRAFFIC_DISTRIBUTION,
    InternalTrafficPolicy,
    IpFamily,
    KubernetesPort,
    KubernetesServiceSpec,
    KubernetesServiceStatus,
    ServiceType,
    TrafficDistribution,
    TransportProtocol,
)

__all__ = [
    "ADDRESSES",
    "AddressType",
    "CONFIG_MAP",
    "Conditions",
    "ConfigMapFields",
    "ENDPOINTS",
    "ENDPOINT_SLICE",
    "EXPORT_TO",
    "EndpointAddress",
    "EndpointPort",
    "EndpointSliceFields",
    "EndpointsFields",
    "HOSTS",
    "InternalTrafficPolicy",
    "IpFamily",
    "KUBERNETES_SERVICE",
    "KubernetesFields",
    "KubernetesPort",
    "KubernetesServiceSpec",
    "KubernetesServiceStatus",
    "NAMESPACE",
    "NODE",
    "POD",
    "PodSpec",
    "PodStatus",
    "SECRET",
    "SERVICE_NAME_LABEL",
    "SecretFields",
    "ServiceType",
    "SliceEndpoint",
    "TRAFFIC_DISTRIBUTION",
    "TargetReference",
    "TrafficDistribution",
    "TransportProtocol",
    "listed",
]
