"""Telemetry objects, providers and proxies, for tests of what they come to."""

from collections.abc import Callable

import yaml

from envoy_config.plan._provider_services import ProviderService
from envoy_config.plan._proxy import Proxy
from envoy_config.plan.resolved._telemetry import Telemetry
from envoy_config.plan.telemetry._telemetry import telemetry_of
from mesh_model import MeshModel
from proxies import proxy_of
from xds_server import Node

Build = Callable[..., MeshModel]
ROOT = "istio-system"

PROVIDERS = """
- name: files
  envoyFileAccessLog: {path: /var/log/a}
- name: others
  envoyFileAccessLog: {path: /var/log/b, logFormat: {text: "%PROTOCOL%"}, omitEmptyValues: true}
- name: labels
  envoyFileAccessLog: {logFormat: {labels: {a: "%PROTOCOL%"}}}
- name: requests
  envoyHttpAls: {service: als.example.com, port: 80, logName: l}
- name: connections
  envoyTcpAls: {service: default/als.example.com, port: 80}
- name: records
  envoyOtelAls: {service: als.example.com, port: 80, logFormat: {text: t, labels: {a: b}}}
- name: lost
  envoyOtelAls: {service: none.example.com, port: 80}
- name: zipkin
  zipkin: {service: als.example.com, port: 80, maxTagLength: 9}
- name: lost-zipkin
  zipkin: {service: none.example.com, port: 80}
- name: datadog
  datadog: {service: als.example.com, port: 80}
"""

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: als, namespace: default}
spec:
  hosts: [als.example.com]
  resolution: STATIC
  ports: [{number: 80, name: grpc, protocol: GRPC}]
  endpoints: [{address: 10.0.0.1}]
"""
ALS = ProviderService(
    "outbound|80||als.example.com", "als.example.com", ("default", "als.example.com")
)


def telemetry(name: str, spec: str, namespace: str = "default", labels: str = "") -> str:
    selector = f"  selector: {{matchLabels: {labels}}}\n" if labels else ""
    return (
        "---\napiVersion: telemetry.istio.io/v1\nkind: Telemetry\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n{selector}  {spec}\n"
    )


def mesh(**fields: object) -> str:
    """Return a mesh config with providers; without metrics, unless default providers are given."""
    no_metrics: dict[str, object] = {"defaultProviders": {"metrics": []}}
    spec = {"extensionProviders": yaml.safe_load(PROVIDERS), **no_metrics, **fields}
    text = yaml.safe_dump({"spec": spec}, sort_keys=False)
    return f"---\napiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\n{text}"


def proxy(kind: str = "sidecar", **metadata: object) -> Proxy:
    return proxy_of(
        Node(
            id=f"{kind}~127.0.0.9~w.default~default.svc.cluster.local",
            cluster="w.default",
            user_agent="envoy/1.40.0",
            metadata={"LABELS": {"app": "w"}, **metadata},  # type: ignore[dict-item]
        )
    )


def found(model: MeshModel, of: Proxy | None = None) -> Telemetry | None:
    known = {service.host: service for service in model.services}
    return telemetry_of(of or proxy(), model, lambda: known)
