"""Which gateways get which secrets, and which pushes they are in."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

from envoy_config import Proxy
from envoy_config.changes import difference
from istio_config import ConfigObject, FileContent, InFile, snapshot_of
from istio_config.kinds.destination_rule import DESTINATION_RULE
from istio_config.kinds.gateway import GATEWAY
from istio_config.kinds.kubernetes import CONFIG_MAP, SecretFields
from istio_config.kinds.workload_group import WORKLOAD_GROUP
from key_material import revocation_list
from mesh_discovery.push._affected import needs_push
from mesh_discovery.push._secrets import SecretsGenerator
from mesh_discovery.push._served_context import ServedContext
from mesh_model import Facts, MeshModel, build_model
from mesh_objects import object_of, pod, service_entry, workload_entry
from mesh_testkit.certificates import Authority
from proxies import proxy_of
from xds_server import Client, ConfigKey, Node, PushRequest, Resource, Watch, type_urls

PROVEN = ("spiffe://cluster.local/ns/shop/sa/gw",)
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
        origin=InFile("secrets.yaml", 1),
    )


def model(*objects: ConfigObject) -> MeshModel:
    return build_model(Facts(snapshot=snapshot_of([FileContent(objects=objects)])))


def served(*objects: ConfigObject) -> ServedContext:
    return ServedContext(model(*objects))


ROUTER = {"istio": "ingressgateway"}


def gateway(
    *names: str,
    namespace: str = "shop",
    selector: Mapping[str, str] | None = None,
    roots: str = "",
) -> ConfigObject:
    """Make a Gateway with a server for each `credentialName`, for workloads with labels."""
    return object_of(
        GATEWAY,
        "gw",
        {
            "selector": ROUTER if selector is None else selector,
            "servers": [
                {
                    "port": {"number": 443 + index, "protocol": "HTTPS", "name": f"s{index}"},
                    "hosts": ["*"],
                    "tls": {
                        "mode": "SIMPLE",
                        "credentialName": name,
                        "caCertCredentialName": roots,
                    },
                }
                for index, name in enumerate(names)
            ],
        },
        namespace=namespace,
    )


def known(
    account: str = "gw", labels: Mapping[str, str] | None = None, namespace: str = "shop"
) -> ConfigObject:
    """Make the WorkloadEntry of a gateway."""
    return workload_entry(
        f"known-{account}",
        "10.0.0.1",
        namespace=namespace,
        labels=ROUTER if labels is None else labels,
        serviceAccount=account,
    )


def router(kind: str = "router", namespace: str = "shop") -> Proxy:
    return proxy_of(Node(id=f"{kind}~10.0.0.1~gw.{namespace}~{namespace}.svc.cluster.local"))


def asked(
    context: ServedContext,
    *names: str,
    proxy: Proxy | None = None,
    proven: bool = True,
    account: str = "gw",
    push: PushRequest | None = None,
    **options: Any,
) -> list[str] | None:
    """Return the names of the secrets that a proxy gets; None if nothing is sent."""
    proxy = proxy or router()
    shown = f"spiffe://cluster.local/ns/{proxy.namespace}/sa/{account}"
    identities = (shown,) if proven else ()
    client = Client(id="1", node=Node(id=proxy.id), identities=identities, context=proxy)
    watch = Watch(type_url=type_urls.SECRET, names=frozenset(names))
    generated = SecretsGenerator(context, **options).generate(client, watch, push)
    return None if generated is None else [each.name for each in generated.resources]


def test_gateway_gets_the_secrets_that_its_gateways_name_with_their_keys() -> None:
    context = served(
        secret("a", **{"ca.crt": AUTHORITY.root_pem.decode(), "ca.crl": LISTS.decode()}),
        secret("other"),
        gateway("a", "b"),
        known(),
    )
    names = ("kubernetes://a", "kubernetes://a-cacert", "kubernetes://b", "kubernetes://other")
    assert asked(context, *names) == ["kubernetes://a", "kubernetes://a-cacert"]
    pair, roots = (
        secret_pb2.Secret.FromString(resource.body)
        for name in ("kubernetes://a", "kubernetes://a-cacert")
        if isinstance(
            resource := context.current.secrets.resource(name, router(), PROVEN), Resource
        )
    )
    assert pair.tls_certificate.certificate_chain.inline_bytes == ISSUED.chain_pem
    assert pair.tls_certificate.private_key.inline_bytes == ISSUED.key_pem
    assert roots.validation_context.trusted_ca.inline_bytes == AUTHORITY.root_pem
    assert roots.validation_context.crl.inline_bytes == LISTS


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("kubernetes://other/a", {}, "is of the namespace other"),
        ("kubernetes://a", {"proxy": router(namespace="other2")}, "write one with"),
        (
            "kubernetes://a",
            {"proxy": router("sidecar")},
            "a DestinationRule whose",
        ),
        ("kubernetes://a", {"proven": False}, "secure port alone"),
        ("kubernetes://a", {"account": "web"}, "account web in shop names"),
        ("kubernetes://b", {}, "a Gateway whose selector is for"),
        ("kubernetes-gateway://shop/a", {}, "a Gateway whose selector is for"),
        ("kubernetes-gateway://other/a", {}, "a Gateway whose selector is for"),
        ("a", {}, "is not kubernetes://"),
    ],
)
def test_secret_that_is_not_for_a_proxy_is_not_sent_and_the_reason_is_reported(
    name: str, options: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = served(
        secret("a"),
        secret("b"),
        secret("a", "other"),
        gateway("a"),
        known(),
        known("web", {"app": "web"}),
    )
    assert asked(context, name, **options) == []
    assert reason in caplog.text or "secret not given" in caplog.text
    proxy = options.get("proxy") or router()
    account = options.get("account", "gw")
    shown = (f"spiffe://cluster.local/ns/{proxy.namespace}/sa/{account}",)
    identities = () if options.get("proven") is False else shown
    ((missing, why),) = SecretsGenerator(context).not_served(proxy, identities, frozenset({name}))
    assert missing == name
    assert reason in why


LABELLED = proxy_of(Node(id=router().id, metadata={"LABELS": ROUTER}))


@pytest.mark.parametrize(
    ("objects", "is_given"),
    [
        ((), False),
        ((known("web", {"app": "web"}),), False),
        ((known("web", {"app": "web"}), known("gw")), False),  # another's labels
        ((known("web"),), True),
        ((known("web", namespace="other"),), False),
        ((pod("10.0.0.1", ROUTER, namespace="shop", serviceAccountName="web"),), True),
        ((pod("10.0.0.1", ROUTER, namespace="shop", serviceAccountName="gw"),), False),
        (
            (
                object_of(
                    WORKLOAD_GROUP,
                    "g",
                    {"template": {"serviceAccount": "web", "labels": ROUTER}},
                    namespace="shop",
                ),
            ),
            True,
        ),
        (
            (
                service_entry(
                    "s",
                    "s.test",
                    namespace="shop",
                    endpoints=[{"address": "10.0.0.1", "serviceAccount": "web", "labels": ROUTER}],
                ),
            ),
            True,
        ),
    ],
)
def test_a_key_is_given_by_the_labels_of_known_workloads_and_not_by_those_of_the_node(
    objects: tuple[ConfigObject, ...],
    is_given: bool,  # noqa: FBT001
) -> None:
    context = served(secret("a"), gateway("a"), *objects)

    given = asked(context, "kubernetes://a", proxy=LABELLED, account="web")

    assert given == (["kubernetes://a"] if is_given else [])


@pytest.mark.parametrize(("namespace", "is_given"), [("shop", True), ("other", False)])
def test_a_gateway_for_all_workloads_gives_keys_to_those_of_its_own_namespace_alone(
    namespace: str,
    is_given: bool,  # noqa: FBT001
) -> None:
    context = served(secret("a"), gateway("a", namespace=namespace, selector={}), known())

    assert asked(context, "kubernetes://a") == (["kubernetes://a"] if is_given else [])


def test_a_gateway_of_another_namespace_names_the_keys_of_routers_that_it_selects() -> None:
    context = served(secret("a"), secret("a", "other"), gateway("a", namespace="other"), known())

    assert asked(context, "kubernetes://a") == ["kubernetes://a"]
    assert asked(context, "kubernetes://other/a") == []


def test_a_gateway_gets_what_rules_name_for_its_calls() -> None:
    rule = object_of(
        DESTINATION_RULE,
        "outside",
        {
            "host": "outside.example",
            "trafficPolicy": {"tls": {"mode": "MUTUAL", "credentialName": "client"}},
        },
        namespace="shop",
    )
    others = object_of(
        DESTINATION_RULE,
        "private",
        {
            "host": "private.example",
            "exportTo": ["."],
            "trafficPolicy": {"tls": {"mode": "MUTUAL", "credentialName": "private"}},
        },
        namespace="other",
    )
    context = served(secret("client"), secret("private"), rule, others, gateway("a"), known())
    names = ("kubernetes://client", "kubernetes://private")

    assert asked(context, *names) == ["kubernetes://client"]
    assert asked(context, *names, account="web") == []


def test_secrets_go_over_plaintext_only_if_that_is_asked_for_by_the_labels_of_the_node() -> None:
    context = served(secret("a"), gateway("a"))
    name = "kubernetes://a"
    assert asked(context, name, proxy=LABELLED, proven=False) == []
    assert asked(context, name, proxy=LABELLED, proven=False, over_plaintext=True) == [name]
    assert asked(context, name, proven=False, over_plaintext=True) == []


def test_secret_of_another_namespace_is_sent_where_a_gateway_of_the_gateway_api_names_it() -> None:
    name = "kubernetes-gateway://other/a"
    context = served(secret("a", "other"), gateway(name), known())
    assert asked(context, name, "kubernetes-gateway://other/b") == [name]


def test_the_account_that_istio_gives_routers_of_the_gateway_api_gets_their_keys() -> None:
    name = "kubernetes-gateway://shop/a"
    edge = gateway(name, selector={"gateway.networking.k8s.io/gateway-name": "edge"})
    own = replace(edge, annotations=(("internal.istio.io/gateway-semantics", "gateway"),))
    context = served(secret("a"), own)

    assert asked(context, name, account="edge-istio") == [name]
    assert asked(context, name, account="edge") == []


def test_sidecar_gets_secrets_that_rules_for_known_workloads_name() -> None:
    rule = object_of(
        DESTINATION_RULE,
        "outside",
        {
            "host": "outside.example",
            "workloadSelector": {"matchLabels": {"app": "web"}},
            "trafficPolicy": {"tls": {"mode": "MUTUAL", "credentialName": "a"}},
        },
        namespace="shop",
    )
    context = served(
        secret("a", **{"ca.crt": AUTHORITY.root_pem.decode()}),
        secret("b"),
        rule,
        known("web", {"app": "web"}),
        known("other", {"app": "other"}),
    )
    names = ("kubernetes://a", "kubernetes://a-cacert", "kubernetes://b")
    web, other = (
        proxy_of(Node(id=router("sidecar").id, metadata={"LABELS": {"app": app}}))
        for app in ("web", "other")
    )
    given = ["kubernetes://a", "kubernetes://a-cacert"]
    assert asked(context, *names, proxy=web, account="web") == given
    assert asked(context, *names, proxy=web, account="other") == []
    assert asked(context, *names, proxy=other, account="other") == []
    change = PushRequest(configs_updated=frozenset({ConfigKey("Secret", "a", "shop")}))
    for proxy, pushed in ((web, True), (other, False), (router(), True)):
        client = Client(id="1", node=Node(id=proxy.id), identities=(), context=proxy)
        assert needs_push(context, client, change) is pushed


def config_map(name: str) -> ConfigObject:
    data = {"ca.crt": AUTHORITY.root_pem.decode()}
    return object_of(CONFIG_MAP, name, {"data": data}, namespace="certs")


def validating(name: str, namespace: str = "shop", **more: object) -> ConfigObject:
    """Make a rule by which clients validate servers by the roots of a ConfigMap."""
    tls = {"mode": "SIMPLE", "credentialName": f"configmap://certs/{name}"}
    spec = {"host": f"{name}.example", "trafficPolicy": {"tls": tls}, **more}
    return object_of(DESTINATION_RULE, name, spec, namespace=namespace)


def test_the_roots_of_a_config_map_go_to_proven_proxies_that_an_object_names_them_for() -> None:
    context = served(
        *map(config_map, ("all", "private", "some", "unnamed")),
        validating("all"),
        validating("private", exportTo=["."]),
        validating("some", workloadSelector={"matchLabels": {"app": "web"}}),
        known("web", {"app": "web"}),
    )
    names = [f"configmap://certs/{name}-cacert" for name in ("all", "private", "some", "unnamed")]
    web, other = router("sidecar"), router("sidecar", "other")

    assert asked(context, *names, proxy=web, account="web") == names[:3]
    assert asked(context, *names, proxy=web, account="default") == names[:2]
    assert asked(context, *names, proxy=router(), account="default") == names[:2]
    assert asked(context, *names, proxy=other, account="default") == names[:1]
    assert asked(context, *names, proxy=web, proven=False) == []
    # The name of a ConfigMap alone is none of a certificate, and leads to no Secret either.
    assert asked(context, "configmap://certs/all", "kubernetes://certs/all-cacert", proxy=web) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([gateway("a")], [gateway("a"), known()]),
        ([gateway("a"), known(labels={})], [gateway("a"), known()]),
        ([gateway("b"), known()], [gateway("a"), known()]),
    ],
)
def test_a_key_comes_by_itself_once_a_workload_is_known_or_a_gateway_names_it(
    before: list[ConfigObject], after: list[ConfigObject]
) -> None:
    old, new = model(secret("a"), *before), model(secret("a"), *after)
    request = difference(old, new)

    assert request is not None
    assert asked(ServedContext(old), "kubernetes://a") == []
    assert asked(ServedContext(new), "kubernetes://a", push=request) == ["kubernetes://a"]


def test_only_the_names_of_secrets_that_changed_are_pushed() -> None:
    def push(*keys: tuple[str, str], kind: str = "Secret") -> PushRequest:
        return PushRequest(
            incremental=True,
            configs_updated=frozenset(ConfigKey(kind, name, owner) for owner, name in keys),
        )

    context = served(secret("a"), secret("b"), gateway("a", "b"), known())
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
