"""The fields of a mesh file. Names in YAML are camelCase; any other field is an error."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class Protocol(StrEnum):
    """The protocol of a port; decides whether Envoy sees requests or only bytes."""

    HTTP = "http"
    HTTP2 = "http2"
    GRPC = "grpc"
    TCP = "tcp"
    TLS = "tls"
    HTTPS = "https"


class MutualTls(StrEnum):
    """Which connections a workload's Envoy accepts: `STRICT` is mutual TLS only."""

    STRICT = "STRICT"
    PERMISSIVE = "PERMISSIVE"
    DISABLE = "DISABLE"


class Mesh(_Shape, frozen=True):
    """Settings of the whole mesh."""

    name: str = ""
    trust_domain: str = "cluster.local"
    certificate_lifetime: str = "1h"
    mtls: MutualTls = MutualTls.STRICT
    http_proxy_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 15002
    dns_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 15053
    drain: str = "5s"


class ServicePort(_Shape, frozen=True):
    """A port on which a workload serves; the same number for callers and for the program."""

    port: Port
    name: str = ""
    protocol: Protocol = Protocol.HTTP


class Gateway(_Shape, frozen=True):
    """The Envoy of a workload is a gateway: it listens for what comes from outside the mesh.

    ports: those of the Gateway objects that select it.
    """

    ports: tuple[Port, ...]
    address: str = "127.0.0.1"


class Workload(_Shape, frozen=True):
    """A program and its identity; each replica gets an agent, an Envoy and addresses.

    service: the service that it is an endpoint of; its own name, unless it is one of several
    workloads of a service. version: its label of that name. locality: `region/zone/subzone`.
    proxyless: there is no Envoy: the program is a gRPC one that takes its configuration itself.
    gateway: there is no program. agent_env: variables of its agent.
    """

    name: str
    namespace: str = "default"
    service: str = ""
    version: str = ""
    locality: str = ""
    gateway: Gateway | None = None
    service_account: str = ""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    ports: tuple[ServicePort, ...] = ()
    command: tuple[str, ...] = ()
    directory: str = "."
    env: dict[str, str] = {}
    agent_env: dict[str, str] = {}
    labels: dict[str, str] = {}
    proxyless: bool = False


class Expectation(_Shape, frozen=True):
    """The expected answer; a check passes when everything given here holds."""

    status: Annotated[int, msgspec.Meta(ge=100, le=599)] | None = None
    text: str | None = None
    caller: str | None = None
    refused: bool = False


class Check(_Shape, frozen=True):
    """One request and the expected answer; via: the gateway that it is sent to."""

    name: str
    from_: str = msgspec.field(name="from")
    request: str
    expect: Expectation
    via: str = ""


class MeshShape(_Shape, frozen=True):
    """The fields of a mesh file, before the rules between fields are checked."""

    workloads: tuple[Workload, ...]
    mesh: Mesh = Mesh()
    config: tuple[dict[str, Any], ...] = ()
    config_dir: str = ""
    checks: tuple[Check, ...] = ()
