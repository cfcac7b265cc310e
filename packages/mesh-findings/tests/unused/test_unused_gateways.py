"""What is configured of gateways and unreachable is reported."""

import pytest

from istio_config import ConfigObject, FileContent, InFile, snapshot_of
from istio_config.kinds.gateway import (
    GATEWAY,
    GatewaySpec,
    Server,
    ServerPort,
    ServerTlsSettings,
    TlsMode,
)
from istio_config.kinds.kubernetes import SECRET, SecretFields
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE, VirtualServiceSpec
from istio_config.kinds.workload_entry import WORKLOAD_ENTRY
from mesh_model import Facts, build_model
from mesh_objects import object_of
from unreachable import unreachable

_KINDS: dict[type, AnyKind] = {
    GatewaySpec: GATEWAY,
    VirtualServiceSpec: VIRTUAL_SERVICE,
    SecretFields: SECRET,
}


def item(
    spec: GatewaySpec | VirtualServiceSpec | SecretFields,
    name: str,
    namespace: str = "shop",
    annotations: tuple[tuple[str, str], ...] = (),
) -> ConfigObject:
    kind = _KINDS[type(spec)]
    return ConfigObject(
        kind=kind.name,
        group=kind.group,
        namespace=namespace,
        name=name,
        spec=spec,
        annotations=annotations,
        origin=InFile(f"{name}.yaml", 1),
    )


def server(*hosts: str, protocol: str = "HTTP", **tls: object) -> Server:
    settings = ServerTlsSettings(**tls) if tls else None  # type: ignore[arg-type]
    port = ServerPort(number=80, protocol=protocol, name=f"{protocol}-{hosts[0]}")
    return Server(port=port, hosts=hosts, tls=settings)


def reported(*objects: ConfigObject) -> list[tuple[str, str, str]]:
    model = build_model(Facts(snapshot=snapshot_of([FileContent(objects=objects)])))
    return [(each.file, each.field, each.message) for each in unreachable(model)]


def test_server_that_has_no_place_is_reported_with_its_gateway() -> None:
    found = reported(
        item(GatewaySpec(servers=(server("*"),), selector={"a": "b"}), "first"),
        item(GatewaySpec(servers=(server("*", protocol="TCP"),), selector={"a": "b"}), "second"),
        item(GatewaySpec(servers=(server("*", protocol="TCP"),), selector={"c": "d"}), "third"),
    )
    assert found == [
        (
            "second.yaml",
            "spec.servers[0]",
            "is left out: port 80 has the HTTP server of servers[0] of Gateway shop/first",
        )
    ]


def test_gateway_for_every_router_takes_the_place_at_each() -> None:
    found = reported(
        item(GatewaySpec(servers=(server("*"),)), "a-all"),
        item(GatewaySpec(servers=(server("*", protocol="TCP"),), selector={"c": "d"}), "b-some"),
    )
    assert [file for file, _, _ in found] == ["b-some.yaml"]


def test_certificate_that_no_namespace_has_is_reported() -> None:
    mode = TlsMode.SIMPLE
    secure = GatewaySpec(
        servers=(
            server("a.example", protocol="HTTPS", mode=mode, credential_name="there"),
            server("b.example", protocol="HTTPS", mode=mode, credential_name="missing"),
        ),
        selector={"istio": "gw"},
    )
    found = reported(item(secure, "gw"), item(SecretFields(), "there", "elsewhere"), router())
    assert [field for _, field, _ in found] == ["spec.servers[1].tls.credentialName"]
    assert 'there is no Secret "missing"' in found[0][2]


def router(account: str = "gw", namespace: str = "elsewhere", label: str = "gw") -> ConfigObject:
    spec = {"address": "10.0.0.1", "serviceAccount": account, "labels": {"istio": label}}
    return object_of(WORKLOAD_ENTRY, "router", spec, namespace=namespace)


@pytest.mark.parametrize(
    ("known", "is_reported"),
    [
        ((), True),
        ((router(),), False),
        ((router(account=""),), True),
        ((router(namespace="shop"),), True),
        ((router(label="other"),), True),
    ],
)
def test_certificate_that_no_router_is_known_for_is_reported(
    known: tuple[ConfigObject, ...],
    is_reported: bool,  # noqa: FBT001
) -> None:
    tls = server("a.example", protocol="HTTPS", mode=TlsMode.SIMPLE, credential_name="there")
    gateway = item(GatewaySpec(servers=(tls,), selector={"istio": "gw"}), "gw")

    found = reported(gateway, item(SecretFields(), "there", "elsewhere"), *known)

    assert bool(found) is is_reported
    assert all(
        "no workload that this Gateway selects is known by a service account in elsewhere" in text
        for _, _, text in found
    )


def test_virtual_service_that_nothing_comes_to_is_reported() -> None:
    gateway = item(GatewaySpec(servers=(server("*.example", "shop/a.other"),)), "gw")

    def bound(name: str, *hosts: str, to: str = "shop/gw", namespace: str = "shop") -> ConfigObject:
        return item(VirtualServiceSpec(hosts=hosts, gateways=("mesh", to)), name, namespace)

    found = reported(
        gateway,
        bound("fine", "a.example"),
        bound("own", "a.other", to="gw"),
        bound("nowhere", "a.example", to="shop/none"),
        bound("other-host", "b.other"),
        bound("other-namespace", "a.other", namespace="elsewhere"),
    )
    assert [(file, field) for file, field, _ in found] == [
        ("nowhere.yaml", "spec.gateways[1]"),
        ("other-host.yaml", "spec.gateways[1]"),
        ("other-namespace.yaml", "spec.gateways[1]"),
    ]
    assert "there is no Gateway shop/none" in found[0][2]
    assert "no server of Gateway shop/gw has a host" in found[1][2]


def test_objects_that_others_are_translated_to_are_not_reported() -> None:
    marked = (("internal.istio.io/route-semantics", "gateway"),)
    spec = VirtualServiceSpec(hosts=("a.example",), gateways=("shop/none",))
    assert reported(item(spec, "translated", annotations=marked)) == []
