"""How connections of workloads come to their proxies."""

from enum import StrEnum


class InterceptionMode(StrEnum):
    """How the connections of a workload come to its proxy; a node that says nothing means NONE.

    NONE: the proxy is bound to the addresses that are connected to. REDIRECT, TPROXY: rules of the
    kernel lead them to two ports of the proxy, which knows where they were going.
    """

    NONE = "NONE"
    REDIRECT = "REDIRECT"
    TPROXY = "TPROXY"
