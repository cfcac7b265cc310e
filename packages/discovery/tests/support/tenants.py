"""A mesh of several teams, and what one of them changes for the others by what it writes.

Namespace a has the service pay, b calls it, infra has the shared gateway; evil is the tenant that
writes what a test is about, and has a service of its own. Its namespace is the oldest.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envoy.config.route.v3.route_pb2 import RouteConfiguration

from envoy_config import Proxy, PushContext
from headless_services import HTTP, TCP
from mesh_configfile import Problem
from mesh_discovery import ConfigLoader
from mesh_discovery.push._proxy_configs import start_settings
from mesh_findings import left_out_problems, review
from mesh_model import Facts, MeshModel, build_model
from mesh_protos.nds_pb2 import NameTable
from proxies import proxy_of
from references import References
from xds_server import Node

EVIL = "evil.svc.cluster.local"
PAY, VIP = "pay.a.svc.cluster.local", "10.96.0.7"
MESH_CONFIG = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  extensionProviders:
  - name: authz
    envoyExtAuthzHttp: {service: authz.infra.svc.cluster.local, port: 8000}
  - name: logger
    envoyHttpAls: {service: logs.example, port: 80}
  - name: tracer
    zipkin: {service: spans.example, port: 80}
  defaultProviders: {accessLogging: [logger], tracing: [tracer]}
"""
VICTIMS = f"""\
apiVersion: v1
kind: Namespace
metadata: {{name: evil, creationTimestamp: "2020-01-01T00:00:00Z"}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: own, namespace: evil}}
spec:
  hosts: [own.{EVIL}]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  endpoints: [{{address: 10.66.6.6}}]
---
apiVersion: v1
kind: Service
metadata: {{name: pay, namespace: a}}
spec:
  clusterIP: {VIP}
  selector: {{app: pay}}
  ports: [{{name: http, port: {HTTP}}}, {{name: tcp-db, port: {TCP}}}, {{name: tls, port: 443}}]
---
apiVersion: v1
kind: Pod
metadata:
  {{name: pay-1, namespace: a, labels: {{app: pay, security.istio.io/tlsMode: istio}}}}
spec: {{serviceAccountName: pay, containers: [{{name: a, image: a}}]}}
status:
  phase: Running
  podIP: 10.0.0.5
  podIPs: [{{ip: 10.0.0.5}}]
  conditions: [{{type: Ready, status: "True"}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: pay-1, namespace: a, labels: {{kubernetes.io/service-name: pay}}}}
addressType: IPv4
ports: [{{name: http, port: {HTTP}}}, {{name: tcp-db, port: {TCP}}}, {{name: tls, port: 443}}]
endpoints:
- {{addresses: [10.0.0.5], targetRef: {{kind: Pod, name: pay-1, namespace: a}}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: authz, namespace: infra}}
spec:
  hosts: [authz.infra.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 8000, name: http, protocol: HTTP}}]
  endpoints: [{{address: 10.0.0.8}}]
---
apiVersion: v1
kind: Service
metadata: {{name: ingress, namespace: infra}}
spec: {{clusterIP: 10.96.0.9, ports: [{{name: http, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  {{name: ingress-1, namespace: infra, labels: {{kubernetes.io/service-name: ingress}}}}
addressType: IPv4
ports: [{{name: http, port: 80}}]
endpoints: [{{addresses: [10.0.0.5]}}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {{name: asked, namespace: a}}
spec: {{action: CUSTOM, provider: {{name: authz}}, rules: [{{}}]}}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: shared, namespace: infra}}
spec:
  selector: {{istio: ingress}}
  servers:
  - {{port: {{number: 80, name: http, protocol: HTTP}}, hosts: [a/shop.example, "*.open.example"]}}
  - {{port: {{number: 443, name: tls, protocol: TLS}}, hosts: ["*.open.example"],
      tls: {{mode: PASSTHROUGH}}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: shop, namespace: a}}
spec:
  hosts: [shop.example]
  gateways: [infra/shared]
  http: [{{route: [{{destination: {{host: pay, port: {{number: {HTTP}}}}}}}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: api, namespace: infra}}
spec:
  gatewayClassName: istio
  listeners:
  - {{name: own, port: 8081, protocol: HTTP}}
  - {{name: all, port: 8082, protocol: HTTP, hostname: "*.open.example",
      allowedRoutes: {{namespaces: {{from: All}}}}}}
"""


def _is_evils(thing: str) -> bool:
    """Tell whether a thing is of evil's own hosts, or at an address that was allocated for them."""
    return EVIL in thing or thing.startswith("listener 240.240.")


def _proxy(kind: str, namespace: str, **metadata: Any) -> Proxy:
    return proxy_of(
        Node(
            id=f"{kind}~10.0.0.5~p.{namespace}~{namespace}.svc.cluster.local",
            metadata={"NAMESPACE": namespace, "SERVICE_ACCOUNT": "default", **metadata},
        )
    )


PROXIES: Mapping[str, Proxy] = {
    "pay": _proxy("sidecar", "a", INTERCEPTION_MODE="REDIRECT", LABELS={"app": "pay"}),
    "redirected client": _proxy("sidecar", "b", INTERCEPTION_MODE="REDIRECT"),
    "client with DNS": _proxy(
        "sidecar",
        "b",
        INTERCEPTION_MODE="REDIRECT",
        DNS_CAPTURE="true",
        DNS_AUTO_ALLOCATE="true",
    ),
    "bound client": _proxy("sidecar", "b", OUTBOUND_BIND_ADDRESS="127.0.0.3"),
    "shared gateway": _proxy("router", "infra", LABELS={"istio": "ingress"}),
    "api gateway": _proxy(
        "router", "infra", LABELS={"gateway.networking.k8s.io/gateway-name": "api"}
    ),
}
"""The proxies of other namespaces than evil, by what they are."""


class Teams:
    """Builds the mesh of several teams with what a tenant writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._references = References()
        self._count = 0

    def model(
        self,
        *documents: str,
        strict: bool,
        scope_gateways: bool = False,
        mesh_config: str = MESH_CONFIG,
        given: str = "",
    ) -> MeshModel:
        """Build a model of the victims and these documents; given: hosts, to namespace evil."""
        self._count += 1
        directory = self._directory / str(self._count)
        directory.mkdir()
        (directory / "mesh.yaml").write_text(mesh_config)
        annotations = f'annotations: {{mesh-discovery/hosts: "{given}"}}'
        teams = VICTIMS.replace("name: evil, ", f"name: evil, {annotations}, ", 1)
        (directory / "teams.yaml").write_text(teams)
        for index, each in enumerate(documents):
            (directory / f"tenant-{index}.yaml").write_text(each)
        load = ConfigLoader(directory).load()
        assert not load.problems, [str(each) for each in load.problems]
        return build_model(
            Facts(snapshot=load.snapshot), strict_namespaces=strict, scope_gateways=scope_gateways
        )

    def touched(self, before: MeshModel, after: MeshModel) -> list[str]:
        """Return what proxies of other namespaces have otherwise, but for evil's own hosts."""
        found = []
        for name, proxy in PROXIES.items():
            old, new = self._everything(before, proxy), self._everything(after, proxy)
            found += [
                f"{name}: {thing}"
                for thing in sorted(old.keys() | new.keys())
                if old.get(thing) != new.get(thing) and not _is_evils(thing)
            ]
        return found

    def reported(self, model: MeshModel) -> list[Problem]:
        """Return what `check`, the log and the status report of the tenant's objects."""
        context, findings = PushContext(model), review(model)
        for proxy in PROXIES.values():
            context.listeners(proxy)
        reported = (
            *findings.problems,
            *findings.warnings,
            *model.gateway_api.warnings,
            *left_out_problems(context.left_out, model.gateways),
        )
        return [each for each in reported if "tenant-" in each.file]

    def _everything(self, model: MeshModel, proxy: Proxy) -> Mapping[str, bytes]:
        context = PushContext(model)
        clusters, listeners = context.clusters(proxy), context.listeners(proxy)
        found = {f"cluster {each.name}": each.body for each in clusters.resources}
        found |= {f"listener {each.name}": each.body for each in listeners.resources}
        wanted = self._references.named_by(clusters.resources)
        endpoints = context.endpoints(proxy, wanted).resources
        found |= {f"endpoints {each.name}": each.body for each in endpoints}
        for each in context.routes(proxy, self._references.named_by(listeners.resources)).resources:
            routes = RouteConfiguration.FromString(each.body)
            for host in routes.virtual_hosts:
                found[f"route {routes.name} {host.name}"] = host.SerializeToString(
                    deterministic=True
                )
        for resource in context.names(proxy).resources:
            for host_name, info in NameTable.FromString(resource.body).table.items():
                found[f"name {host_name}"] = info.SerializeToString(deterministic=True)
        found["settings of its start"] = repr(start_settings(proxy, model)).encode()
        return found
