"""DestinationRule: how clients connect to a service, and the subsets that it has."""

from istio_config.kinds.destination_rule._client_tls import ClientTls, ClientTlsMode
from istio_config.kinds.destination_rule._connection_pool import (
    ConnectionPool,
    H2UpgradePolicy,
    Http2KeepAlive,
    HttpSettings,
    TcpKeepalive,
    TcpSettings,
)
from istio_config.kinds.destination_rule._kind import DESTINATION_RULE
from istio_config.kinds.destination_rule._load_balancer import (
    ConsistentHash,
    LoadBalancer,
    SimpleLb,
    Warmup,
)
from istio_config.kinds.destination_rule._locality import Distribute, Failover, LocalityLbSetting
from istio_config.kinds.destination_rule._locality_mistakes import locality_mistakes
from istio_config.kinds.destination_rule._outlier_detection import OutlierDetection
from istio_config.kinds.destination_rule._pool_mistakes import outlier_mistakes, pool_mistakes
from istio_config.kinds.destination_rule._spec import (
    DestinationRuleSpec,
    PortTrafficPolicy,
    ProxyProtocol,
    ProxyProtocolVersion,
    RetryBudget,
    Subset,
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
    "outlier_mistakes",
    "pool_mistakes",
]
