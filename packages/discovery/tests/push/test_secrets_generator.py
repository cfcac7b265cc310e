"""Which gateways get which secrets, and which pushes they are in."""

from typing import Any

import msgspec
import pytest
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

from key_material import revocation_list
from mesh_discovery.config._file_content import FileContent
from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config._snapshot import snapshot_of
from mesh_discovery.config.kinds.destination_rule._kind import DESTINATION_RULE
from mesh_discovery.config.kinds.destination_rule._spec import DestinationRuleSpec
from mesh_discovery.config.kinds.gateway._kind import GATEWAY
from mesh_discovery.config.kinds.gateway._spec import GatewaySpec, Server
from mesh_discovery.config.kinds.gateway._spec import ServerPort as Port
from mesh_discovery.config.kinds.gateway._spec import ServerTlsSettings as Tls
from mesh_discovery.config.kinds.kubernetes._secret import SecretFields
from mesh_discovery.model._model import MeshModel, build_model
from mesh_discovery.plan._proxy import Proxy, parse_proxy
from mesh_discovery.push._affected import needs_push
from mesh_discovery.push._changes import difference
from mesh_discovery.push._secrets import SecretsGenerator
from mesh_discovery.push._served_context import ServedContext
from mesh_testkit.certificates import Authority
from xds_server import Client, ConfigKey, Node, PushRequest, Watch, type_urls

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("a.example")
LISTS = revocation_list()


def secret(name: str, namespace: str = "shop", **more: str) -> ConfigObject:
    values = {"tls.crt": ISSUED.chain_pem.decode(), "tls.key": ISSUED.key_pem.decode(), **more}
    return ConfigObject(
        kind="Secret",
        namespace=namespace,
        name=name,
        spec=SecretFields(string_data=values),
        file="secrets.yaml",
        line=1,
    )


def model(*objects: ConfigObject) -> MeshModel:
    return build_model(snapshot_of([FileContent(objects=objects)]))


def served(*objects: ConfigObject) -> ServedContext:
    return ServedContext(model(*objects))


def router(kind: str = "router", namespace: str = "shop") -> Proxy:
    return parse_proxy(Node(id=f"{kind}~10.0.0.1~gw.{namespace}~{namespace}.svc.cluster.local"))


def asked(
    context: ServedContext,
    *names: str,
    proxy: Proxy | None = None,
    proven: bool = True,
    push: PushRequest | None = None,
    **options: Any,
) -> list[str] | None:
    """Return the names of the secrets that a proxy gets; None if nothing is sent."""
    proxy = proxy or router()
    identities = (f"spiffe://cluster.local/ns/{proxy.namespace}/sa/gw",) if proven else ()
    client = Client(id="1", node=Node(id=proxy.id), identities=identities, context=proxy)
    watch = Watch(type_url=type_urls.SECRET, names=frozenset(names))
    generated = SecretsGenerator(context, **options).generate(client, watch, push)
    return None if generated is None else [each.name for each in generated.resources]


def test_gateway_gets_the_secrets_of_its_namespace_with_their_keys() -> None:
    context = served(
        secret("a", **{"ca.crt": AUTHORITY.root_pem.decode(), "ca.crl": LISTS.decode()})
    )
    assert asked(context, "kubernetes://a", "kubernetes://a-cacert", "kubernetes://b") == [
        "kubernetes://a",
        "kubernetes://a-cacert",
    ]
    pair, roots = (
        secret_pb2.Secret.FromString(resource.body)
        for name in ("kubernetes://a", "kubernetes://a-cacert")
        if (resource := context.current.secrets.resource(name, router(), is_proven=True))
    )
    assert pair.tls_certificate.certificate_chain.inline_bytes == ISSUED.chain_pem
    assert pair.tls_certificate.private_key.inline_bytes == ISSUED.key_pem
    assert roots.validation_context.trusted_ca.inline_bytes == AUTHORITY.root_pem
    assert roots.validation_context.crl.inline_bytes == LISTS


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("kubernetes://other/a", {}, "is of the namespace other"),
        ("kubernetes://a", {"proxy": router(namespace="other2")}, "no Secret a"),
        ("kubernetes://a", {"proxy": router("sidecar")}, "a sidecar is given only"),
        ("kubernetes://a", {"proven": False}, "secure port alone"),
        ("kubernetes-gateway://shop/a", {}, "none of its Gateways"),
        ("kubernetes-gateway://other/a", {}, "none of its Gateways"),
        ("a", {}, "is not kubernetes://"),
    ],
)
def test_secret_that_is_not_for_a_proxy_is_not_sent_and_the_reason_is_told(
    name: str, options: dict[str, Any], reason: str
) -> None:
    context = served(secret("a"), secret("a", "other"))
    assert asked(context, name, **options) == []
    proxy = options.get("proxy") or router()
    identities = () if options.get("proven") is False else ("spiffe://proven",)
    ((told, why),) = SecretsGenerator(context).not_served(proxy, identities, frozenset({name}))
    assert told == name
    assert reason in why


def test_secrets_go_over_plaintext_only_if_that_is_asked_for() -> None:
    context = served(secret("a"))
    assert asked(context, "kubernetes://a", proven=False) == []
    assert asked(context, "kubernetes://a", proven=False, over_plaintext=True) == ["kubernetes://a"]


def test_secret_of_another_namespace_is_sent_where_a_gateway_of_the_gateway_api_names_it() -> None:
    name = "kubernetes-gateway://other/a"
    gateway = ConfigObject(
        kind=GATEWAY.name,
        group=GATEWAY.group,
        namespace="shop",
        name="gw",
        spec=GatewaySpec(
            servers=(
                Server(
                    port=Port(number=443, protocol="HTTPS", name="https"),
                    hosts=("*",),
                    tls=Tls(credential_names=(name,)),
                ),
            )
        ),
        file="gw.yaml",
        line=1,
    )
    context = served(secret("a", "other"), gateway)
    assert asked(context, name, "kubernetes-gateway://other/b") == [name]


def test_sidecar_gets_secrets_that_rules_for_certain_workloads_name() -> None:
    rule = ConfigObject(
        kind=DESTINATION_RULE.name,
        group=DESTINATION_RULE.group,
        namespace="shop",
        name="outside",
        spec=msgspec.convert(
            {
                "host": "outside.example",
                "workloadSelector": {"matchLabels": {"app": "web"}},
                "trafficPolicy": {"tls": {"mode": "MUTUAL", "credentialName": "a"}},
            },
            DestinationRuleSpec,
        ),
        file="rule.yaml",
        line=1,
    )
    context = served(secret("a", **{"ca.crt": AUTHORITY.root_pem.decode()}), secret("b"), rule)
    names = ("kubernetes://a", "kubernetes://a-cacert", "kubernetes://b")
    web, other = (
        parse_proxy(Node(id=router("sidecar").id, metadata={"LABELS": {"app": app}}))
        for app in ("web", "other")
    )
    assert asked(context, *names, proxy=web) == ["kubernetes://a", "kubernetes://a-cacert"]
    assert asked(context, *names, proxy=other) == []
    change = PushRequest(configs_updated=frozenset({ConfigKey("Secret", "a", "shop")}))
    for proxy, pushed in ((web, True), (other, False), (router(), True)):
        client = Client(id="1", node=Node(id=proxy.id), identities=(), context=proxy)
        assert needs_push(context, client, change) is pushed


def test_only_the_names_of_secrets_that_changed_are_pushed() -> None:
    def push(*keys: tuple[str, str], kind: str = "Secret") -> PushRequest:
        return PushRequest(
            incremental=True,
            configs_updated=frozenset(ConfigKey(kind, name, owner) for owner, name in keys),
        )

    context = served(secret("a"), secret("b"))
    names = ("kubernetes://a", "kubernetes://b", "kubernetes://a-cacert")
    assert asked(context, *names, push=push(("shop", "a"))) == ["kubernetes://a"]
    assert asked(context, *names, push=push(("shop", "c"))) is None
    assert asked(context, *names, push=push(("other", "a"))) is None
    assert asked(context, *names, push=push(("shop", "a"), kind="ServiceEntry")) is None
    assert asked(context, *names, push=PushRequest()) == ["kubernetes://a", "kubernetes://b"]


def test_change_of_a_secret_alone_is_a_push_of_its_own() -> None:
    before = model(secret("a"), secret("b"))
    request = difference(before, model(secret("a"), secret("b", x="y")))
    assert request is not None
    assert request.configs_updated == {ConfigKey("Secret", "b", "shop")}
    assert request.incremental
    assert request.reasons == ("Secret/shop/b",)
    assert difference(before, model(secret("a"), secret("b"))) is None
