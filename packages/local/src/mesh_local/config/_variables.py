"""The variables that a mesh file gives programs and agents."""

import re
from collections.abc import Iterator

from mesh_configfile import FieldPath
from mesh_local.config._shapes import Workload

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
AGENTS_OWN = frozenset(
    {
        "DISABLE_ENVOY",
        "DNS_PROXY_ADDR",
        "INSTANCE_IP",
        "ISTIOD_SAN",
        "ISTIO_META_APP_ADDRESS",
        "ISTIO_META_DNS_CAPTURE",
        "ISTIO_META_INTERCEPTION_MODE",
        "ISTIO_META_OUTBOUND_BIND_ADDRESS",
        "ISTIO_META_WORKLOAD_NAME",
        "MESH_AGENT_BIND_ADDRESS",
        "OUTPUT_CERTS",
        "POD_NAME",
        "POD_NAMESPACE",
        "PROXY_CONFIG",
        "SECRET_TTL",
        "SERVICE_ACCOUNT",
        "TRUST_DOMAIN",
    }
)
"""The variables by which an agent is the workload's own: they follow from the mesh file."""
_FOR_PROXYLESS = frozenset({"OUTPUT_CERTS"})
"""Those that follow from it only where there is no Envoy."""


def wrong_variables(workload: Workload, place: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Yield what is wrong with the variables of a workload's program and of its agent."""
    for field, variables in (("env", workload.env), ("agentEnv", workload.agent_env)):
        for name, value in variables.items():
            if not _VARIABLE.fullmatch(name):
                yield (*place, field, name), "is not the name of an environment variable"
            elif "\0" in value:
                yield (*place, field, name), "holds a NUL, which no variable can"
    own = AGENTS_OWN if workload.proxyless else AGENTS_OWN - _FOR_PROXYLESS
    for name in sorted(own & workload.agent_env.keys()):
        yield (
            (*place, "agentEnv", name),
            "is given to the agent already, from other fields of this file",
        )
