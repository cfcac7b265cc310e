"""DestinationRule: how clients connect to a service, and the subsets that it has."""

from istio_config.kinds.destination_rule._client_tls import ClientTls, ClientTlsMode
from istio_config.kinds.destination_rule._connection_pool import (
    ConnectionPool,
    H2UpgradePolicy,
    Http2KeepAlive,
    HttpSettings,
    TcpKeepalive,
    TcpSettings,
    connection_pool_mistakes,
)
from istio_config.kinds.destination_rule._kind import DESTINATION_RULE, DestinationRuleSpec, Subset
from istio_config.kinds.destination_rule._load_balancer import (
    ConsistentHash,
    LoadBalancer,
    SimpleLb,
    Warmup,
)
from istio_config.kinds.destination_rule._locality import (
    Distribute,
    Failover,
    LocalityLbSetting,
    locality_mistakes,
)
from istio_config.kinds.destination_rule._outlier_detection import (
    OutlierDetection,
    outlier_detection_mistakes,
)
from istio_config.kinds.destination_rule._traffic_policy import (
    PortSelector,
    PortTrafficPolicy,
    ProxyProtocol,
    ProxyProtocolVersion,
    RetryBudget,
    TrafficPolicy,
    Tunnel,
)

__all__ = [
    "ClientTls",
    "ClientTlsMode",
    "ConnectionPool",
    "ConsistentHash",
    "DESTINATION_RULE",
    "DestinationRuleSpec",
    "Distribute",
    "Failover",
    "H2UpgradePolicy",
    "Http2KeepAlive",
    "HttpSettings",
    "LoadBalancer",
    "LocalityLbSetting",
    "OutlierDetection",
    "PortSelector",
    "PortTrafficPolicy",
    "ProxyProtocol",
    "ProxyProtocolVersion",
    "RetryBudget",
    "SimpleLb",
    "Subset",
    "TcpKeepalive",
    "TcpSettings",
    "TrafficPolicy",
    "Tunnel",
    "Warmup",
    "locality_mistakes",
    "outlier_detection_mistakes",
    "connection_pool_mistakes",
]
