"""The purpose of each rule, by its name."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_MEANINGS: Final = {
    "answer-to-proxy": "the application's answers to a client go back to the proxy",
    "dns": "DNS queries go to the agent",
    "dns-answer-of-agent": "the agent's answers are tracked with the queries that came to it",
    "dns-by-agent": "the agent's own queries go to the servers",
    "dns-excluded-group": "queries of excluded groups go to the servers",
    "dns-excluded-interface": "queries by excluded interfaces go to the servers",
    "dns-from-server": "answers of servers are tracked with the queries that went to them",
    "dns-included-group": "queries of included groups go to the agent",
    "dns-other-group": "queries of groups that are not included go to the servers",
    "excluded-group": "traffic of excluded groups is not redirected",
    "excluded-inbound-port": "the inbound port is excluded",
    "excluded-interface": "the interface is excluded",
    "excluded-outbound-port": "the outbound port is excluded",
    "excluded-range": "the destination is in an excluded range",
    "inbound": "inbound TCP goes to the proxy",
    "included-group": "traffic of included groups may be redirected",
    "invalid": "conntrack finds the packet invalid",
    "other-group": "only traffic of included groups is redirected",
    "outbound": "all other outbound TCP goes to the proxy",
    "outbound-port": "TCP to this port goes to the proxy, whatever the destination",
    "outbound-range": "outbound TCP to this range goes to the proxy",
    "passed-on": "the proxy passes an inbound connection on to the application",
    "passed-on-by-mark": "the proxy passes an inbound connection on with the client's address",
    "proxy-group": "the socket has a group of the proxy",
    "proxy-user": "the socket has a user of the proxy",
    "self-call": "the application calls an address of its own machine",
    "self-call-by-proxy": "the proxy calls its own workload: that is inbound",
    "sent-by-proxy": "the proxy's own traffic is not redirected",
    "to-loopback": "the destination is loopback",
    "to-open-connection": "the packet belongs to a connection that is open already",
    "tunnel": "the tunnel's port is the proxy's own",
    "virtual-machine": "TCP of a virtual machine goes to the proxy as outbound",
    "virtual-machine-other": "other traffic of a virtual machine is not redirected",
    "virtual-machine-range": "TCP of a virtual machine to this range goes to the proxy as outbound",
}
RULE_NAMES: Final = frozenset(_MEANINGS)


def meaning(name: str) -> str:
    """Return what the rules of this name are for."""
    return _MEANINGS.get(name, "it is no rule of ours")
