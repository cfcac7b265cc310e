"""Rules for labels that nothing has are reported by the control plane that runs, and by `check`."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from mesh_discovery._check import check_configuration
from mesh_discovery._metrics import Metrics
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.sources.files._loader import ConfigLoader
from mesh_model import Facts

SERVICE = """
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: prices, namespace: shop}
spec:
  hosts: [prices.shop.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1, labels: {app: prices, version: v1}}]
"""
RULES = """
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: closed, namespace: shop}
spec: {action: DENY, selector: {matchLabels: {app: APP}}, rules: [{}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: prices, namespace: shop}
spec: {host: prices.shop.svc.cluster.local, subsets: [{name: new, labels: {version: VERSION}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: prices, namespace: shop}
spec:
  hosts: [prices.shop.svc.cluster.local]
  http: [{route: [{destination: {host: prices.shop.svc.cluster.local, subset: new}}]}]
"""
MESSAGES = [
    (
        "no workload that is known in namespace shop has the labels app=pricez: "
        "it holds for none of them"
    ),
    (
        'no endpoint of prices.shop.svc.cluster.local has the labels of the subset "new", '
        "version=v2: what is sent there is answered with 503, or closed"
    ),
]


def of_file(directory: Path, app: str, version: str) -> Facts:
    text = SERVICE + RULES.replace("APP", app).replace("VERSION", version)
    (directory / "mesh.yaml").write_text(text)
    return Facts(snapshot=ConfigLoader(directory, keep_lines=True).load().snapshot)


def test_labels_that_nothing_has_are_reported_until_something_has_them(tmp_path: Path) -> None:
    store = ConfigStore(
        of_file(tmp_path, "pricez", "v2"),
        metrics=Metrics(CollectorRegistry(), version="0"),
        trust_domain="cluster.local",
        domain="cluster.local",
        scope_gateways=False,
        strict_namespaces=False,
    )
    assert [each.message for each in store.warnings] == MESSAGES
    checked = check_configuration(tmp_path)
    assert [each.message for each in checked.warnings] == MESSAGES
    store.serve(of_file(tmp_path, "prices", "v1"), lambda _: None)
    store.look_for_unreachable()
    assert store.warnings == ()
    assert check_configuration(tmp_path).warnings == ()
