"""A configuration → its rules.

Order and meaning are those of Istio's rules, which Envoy's listeners are configured for, with these
differences: "is it the proxy" is one question (any of the users or groups), so that lists of ids
mean what they say; the proxy of TPROXY mode may have any user; the tunnel's port is never
redirected, in TPROXY mode either; queries that are not redirected share the zone of the agent's.
"""

from __future__ import annotations

from mesh_traffic_capture._errors import InvalidCapture
from mesh_traffic_capture._value import replace
from mesh_traffic_capture.config import DNS_PORT, CaptureConfig, Mode
from mesh_traffic_capture.rules._dns import dns_chains
from mesh_traffic_capture.rules._inbound import inbound_chains
from mesh_traffic_capture.rules._outbound import outbound_chains
from mesh_traffic_capture.rules._rule import RuleSet


def build_rules(config: CaptureConfig) -> RuleSet:
    """Return the rules of a configuration; raises `InvalidCapture` with all that is wrong."""
    if mistakes := config.mistakes():
        raise InvalidCapture(mistakes)
    if DNS_PORT in config.excluded_outbound_ports:
        config = replace(config, dns=None)  # no query would be redirected: no zones either
    tproxy = config.mode is Mode.TPROXY
    chains = (*dns_chains(config), *inbound_chains(config), *outbound_chains(config))
    return RuleSet(
        chains=tuple(chain for chain in chains if chain.rules),
        ipv6=config.ipv6,
        tproxy_mark=config.tproxy_mark if tproxy else None,
        tproxy_table=config.tproxy_table if tproxy else None,
    )
