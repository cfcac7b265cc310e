"""A DNS server that knows the mesh's names and forwards all others, and is never silent.

A name table, as plain data, is compiled into answers that are nearly ready to send; what is not in
it is asked of the servers that resolv.conf names, and kept for as long as it holds.
"""

from mesh_dnsproxy._config import DnsConfig
from mesh_dnsproxy._counts import DURATION_BUCKETS_S, ByType, Counts, Dropped
from mesh_dnsproxy._errors import AddressInUse, ConfigError, DnsProxyError, NameTableError
from mesh_dnsproxy._explanation import Explanation
from mesh_dnsproxy._server import DnsServer, serving
from mesh_dnsproxy.answering._explanation import Rule
from mesh_dnsproxy.forwarding._cache import CacheConfig
from mesh_dnsproxy.forwarding._forwarder import ForwardConfig
from mesh_dnsproxy.forwarding._questions import Origin
from mesh_dnsproxy.forwarding._resolv_conf import (
    ResolvConf,
    Upstream,
    parse_resolv_conf,
    parse_upstream,
)
from mesh_dnsproxy.forwarding._upstreams import without_ourselves
from mesh_dnsproxy.message._shown import ShownRecord
from mesh_dnsproxy.serving._addresses import ListenAddress, is_local
from mesh_dnsproxy.serving._tcp import TcpConfig
from mesh_dnsproxy.table._name_table import (
    JsonNameTable,
    NameEntry,
    NameTable,
    Port,
    TableSource,
)

__all__ = [
    # names
    "JsonNameTable",
    "NameEntry",
    "NameTable",
    "Port",
    "TableSource",
    # the server
    "DnsServer",
    "serving",
    # how a query is answered
    "Explanation",
    "Origin",
    "Rule",
    "ShownRecord",
    # settings
    "CacheConfig",
    "DnsConfig",
    "ForwardConfig",
    "ListenAddress",
    "TcpConfig",
    "Upstream",
    "parse_upstream",
    # resolv.conf
    "ResolvConf",
    "is_local",
    "parse_resolv_conf",
    "without_ourselves",
    # what was counted
    "DURATION_BUCKETS_S",
    "ByType",
    "Counts",
    "Dropped",
    # errors
    "AddressInUse",
    "ConfigError",
    "DnsProxyError",
    "NameTableError",
]
