"""A policy of a Gateway that may stand in what could not be read is not said to be of none."""

from pathlib import Path

from mesh_discovery._check import check_configuration

POLICY = """\
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: closed, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: shop-router}]
"""
UNREADABLE = """\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: NAME, namespace: shop
"""


def codes(directory: Path) -> list[str]:
    return [each.code for each in check_configuration(directory).warnings]


def test_the_target_of_a_policy_may_be_in_a_text_that_is_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    gateway = tmp_path / "gateway.yaml"

    gateway.write_text(UNREADABLE.replace("NAME", "other"))
    assert codes(tmp_path) == ["IST0101"]

    gateway.write_text(UNREADABLE.replace("NAME", "shop-router"))
    assert codes(tmp_path) == []
