"""Whole meshes: documents of every kind that is served, and the proxies that ask for them."""

from dataclasses import dataclass

import msgspec
from hypothesis import strategies as st

from drawn_meshes._access import authorization_policies, request_authentications
from drawn_meshes._destination_rules import destination_rules
from drawn_meshes._draws import LOCALITIES, Json
from drawn_meshes._extensions import extensions
from drawn_meshes._gateways import gateways
from drawn_meshes._ingresses import ingresses
from drawn_meshes._observation import telemetries
from drawn_meshes._policies import mesh_configs, peer_authentications, proxy_labels, sidecars
from drawn_meshes._services import services, workloads
from drawn_meshes._virtual_services import virtual_services
from istio_config.kinds.registry import find_kind
from xds_server import Node


@dataclass(frozen=True)
class Mesh:
    """A mesh: what users write, and the nodes of its proxies."""

    documents: tuple[Json, ...]
    nodes: tuple[Node, ...]

    @property
    def yaml(self) -> str:
        """The documents as one file."""
        return yaml_of(self.documents)


def yaml_of(documents: "tuple[Json, ...] | list[Json]") -> str:
    """Write documents as YAML; JSON is YAML."""
    return "---\n".join(msgspec.json.encode(each).decode() + "\n" for each in documents)


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    """Draw a mesh whose objects are all valid, and a proxy of each kind."""
    drawn = [
        *draw(mesh_configs()),
        *draw(services()),
        *draw(workloads()),
        *draw(peer_authentications()),
        *draw(destination_rules()),
        *draw(virtual_services()),
        *draw(gateways()),
        *draw(ingresses()),
        *draw(sidecars()),
        *draw(authorization_policies()),
        *draw(request_authentications()),
        *draw(telemetries()),
        *draw(extensions()),
    ]
    documents = tuple(each for each in drawn if is_served(each))
    return Mesh(documents, tuple(draw(_nodes())))


def is_served(document: Json) -> bool:
    """Tell whether the control plane reads this kind."""
    return find_kind(document["apiVersion"], document["kind"]) is not None


_OWN_ADDRESSES = {"APP_ADDRESS": "127.0.0.2", "OUTBOUND_BIND_ADDRESS": "127.0.0.3"}


@st.composite
def _nodes(draw: st.DrawFn) -> list[Node]:
    region, zone, sub_zone = (draw(st.sampled_from(LOCALITIES)) + "//").split("/")[:3]
    nodes = []
    for kind, mode, address in (
        ("sidecar", "NONE", "10.4.0.1"),
        ("sidecar", "REDIRECT", "10.4.0.2"),
        ("router", "", "10.4.3.1"),
    ):
        namespace = "b" if kind == "router" else draw(st.sampled_from("ab"))
        name, domain = mode.lower() or "gateway", f"{namespace}.svc.cluster.local"
        nodes.append(
            Node(
                id=f"{kind}~{address}~{name}.{namespace}~{domain}",
                cluster=kind,
                metadata={
                    "NAMESPACE": namespace,
                    "SERVICE_ACCOUNT": "s",
                    "INSTANCE_IPS": address,
                    "LABELS": {"istio": "ingressgateway"}
                    if kind == "router"
                    else draw(proxy_labels),
                    **({"INTERCEPTION_MODE": mode} if mode else {}),
                    **(
                        {"APP_ADDRESS": "127.0.0.2", "OUTBOUND_BIND_ADDRESS": "127.0.0.3"}
                        if mode == "NONE"
                        else {}
                    ),
                },
                region=region,
                zone=zone,
                sub_zone=sub_zone,
            )
        )
    return nodes
