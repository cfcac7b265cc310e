"""The traffic that is to be redirected: checked as a whole, read from Istio's flags too."""

from mesh_traffic_capture.config._capture_config import (
    ALL,
    DNS_PORT,
    LOOPBACK_IPV6,
    PASSED_ON_IPV4,
    PASSED_ON_IPV6,
    SELF_CALL_MARK,
    All,
    CaptureConfig,
    DnsCapture,
    Groups,
    IPAddress,
    IPNetwork,
    Mode,
    Ports,
    Ranges,
)
from mesh_traffic_capture.config._host_facts import HostFacts
from mesh_traffic_capture.config._istio_flags import (
    ISTIO_FLAGS,
    ISTIO_VARIABLES,
    IstioFlag,
    IstioVariable,
    read_arguments,
)
from mesh_traffic_capture.config._istio_settings import (
    Action,
    IstioSettings,
    read_istio_settings,
    read_switch,
    read_text_flag,
)

__all__ = [
    "ALL",
    "All",
    "Action",
    "CaptureConfig",
    "DNS_PORT",
    "DnsCapture",
    "Groups",
    "HostFacts",
    "IPAddress",
    "IPNetwork",
    "ISTIO_FLAGS",
    "ISTIO_VARIABLES",
    "IstioFlag",
    "IstioVariable",
    "IstioSettings",
    "LOOPBACK_IPV6",
    "Mode",
    "PASSED_ON_IPV4",
    "PASSED_ON_IPV6",
    "Ports",
    "Ranges",
    "SELF_CALL_MARK",
    "read_arguments",
    "read_istio_settings",
    "read_switch",
    "read_text_flag",
]
