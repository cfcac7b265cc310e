"""The mutual TLS mode of a workload's port is that of the policy nearest to it."""

import pytest

from istio_config.kinds.peer_authentication import MutualTls, MutualTlsMode, PeerAuthenticationSpec
from istio_config.kinds.selection import WorkloadSelector
from mesh_model.policies._peer_authentication import PeerPolicies, Policy


def policy(namespace: str, mode: str, labels: dict[str, str] | None = None, **ports: str) -> Policy:
    return Policy(
        namespace=namespace,
        spec=PeerAuthenticationSpec(
            selector=WorkloadSelector(match_labels=labels) if labels else None,
            mtls=MutualTls(mode=MutualTlsMode(mode)),
            port_level_mtls={
                key.removeprefix("p"): MutualTls(mode=MutualTlsMode(value))
                for key, value in ports.items()
            },
        ),
    )


@pytest.mark.parametrize(
    ("policies", "wanted"),
    [
        ([], "PERMISSIVE"),
        ([policy("root", "STRICT")], "STRICT"),
        ([policy("root", "STRICT"), policy("ns", "DISABLE")], "DISABLE"),
        ([policy("root", "STRICT"), policy("ns", "UNSET")], "STRICT"),
        ([policy("ns", "STRICT"), policy("ns", "DISABLE")], "STRICT"),
        ([policy("other", "STRICT")], "PERMISSIVE"),
        ([policy("ns", "STRICT"), policy("ns", "DISABLE", {"app": "web"})], "DISABLE"),
        ([policy("ns", "STRICT"), policy("ns", "DISABLE", {"app": "db"})], "STRICT"),
        ([policy("ns", "DISABLE", {"app": "web"}, p80="STRICT")], "STRICT"),
        ([policy("ns", "DISABLE", {"app": "web"}, p81="STRICT")], "DISABLE"),
        ([policy("ns", "STRICT"), policy("ns", "UNSET", {"app": "web"}, p80="UNSET")], "STRICT"),
        ([policy("root", "DISABLE", {"app": "web"})], "PERMISSIVE"),
    ],
)
def test_the_nearest_and_oldest_policy_decides(policies: list[Policy], wanted: str) -> None:
    all_policies = PeerPolicies(root_namespace="root", policies=tuple(policies))

    assert all_policies.mode("ns", {"app": "web", "v": "1"}, 80) == wanted
