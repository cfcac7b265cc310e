"""What Sidecars say without effect is reported with its field."""

from collections.abc import Callable

import pytest

from documents import entry
from mesh_findings.unused._sidecars import unused_sidecars
from mesh_model import MeshModel

Build = Callable[..., MeshModel]

SERVICES = (
    entry(
        "web",
        "hosts: [web.x], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]",
    ),
    entry(
        "own",
        (
            "hosts: [own.x], resolution: STATIC, "
            "ports: [{number: 80, name: http, protocol: HTTP}], exportTo: [.]"
        ),
        namespace="other",
    ),
    entry("wild", "hosts: ['*.wild.x'], ports: [{number: 80, name: http, protocol: HTTP}]"),
)
ROUTE = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: alone, namespace: default}
spec: {hosts: [alone.x], http: [{directResponse: {status: 200}}]}
"""


def sidecar(spec: str, *, name: str = "s", namespace: str = "default") -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: Sidecar\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n"
    )


def messages(model: MeshModel, *, redirected: bool = True) -> list[str]:
    return [str(each).partition(": ")[2] for each in unused_sidecars(model, redirected=redirected)]


@pytest.mark.parametrize(
    "host",
    ["*/web.x", "./web.x", "default/alone.x", "*/*.wild.x", "./*", "nowhere/*", "~/nothing.x"],
)
def test_hosts_that_bring_something_in_are_not_reported(host: str, model_of: Build) -> None:
    assert (
        messages(model_of(*SERVICES, ROUTE, sidecar(f"{{egress: [{{hosts: ['{host}']}}]}}"))) == []
    )


@pytest.mark.parametrize("host", ["*/nothing.x", "other/own.x", "other/web.x", "*/a.wild.x"])
def test_hosts_that_bring_in_nothing_are_reported(host: str, model_of: Build) -> None:
    model = model_of(*SERVICES, ROUTE, sidecar(f"{{egress: [{{hosts: ['./*', '{host}']}}]}}"))

    (message,) = messages(model)

    assert message.startswith(f'spec.egress[0].hosts[1]: "{host}" imports nothing')


def test_a_proxy_for_unknown_hosts_that_is_no_service_is_reported(model_of: Build) -> None:
    policy = "{mode: ALLOW_ANY, egressProxy: {host: no.x, port: {number: 80}}}"

    (message,) = messages(model_of(*SERVICES, sidecar(f"{{outboundTrafficPolicy: {policy}}}")))

    assert message.startswith('spec.outboundTrafficPolicy.egressProxy.host: there is no service "')


def test_a_proxy_for_unknown_hosts_may_have_the_name_of_an_alias(model_of: Build) -> None:
    alias = (
        "apiVersion: v1\nkind: Service\nmetadata: {name: out, namespace: default}\n"
        "spec: {type: ExternalName, externalName: web.x}\n"
    )
    host = "out.default.svc.cluster.local"
    policy = f"{{mode: ALLOW_ANY, egressProxy: {{host: {host}, port: {{number: 80}}}}}}"

    found = messages(model_of(*SERVICES, alias, sidecar(f"{{outboundTrafficPolicy: {policy}}}")))

    assert found == []


def test_of_two_for_a_whole_namespace_the_younger_is_reported(model_of: Build) -> None:
    every = "{egress: [{hosts: ['*/*']}]}"
    model = model_of(
        sidecar(every, name="a"),
        sidecar(every, name="b"),
        sidecar(every, namespace="other"),
        sidecar("{workloadSelector: {labels: {a: b}}, egress: [{hosts: ['*/*']}]}", name="c"),
    )

    (message,) = messages(model)

    assert message.startswith("metadata.name: no proxy has this one: a (")


def test_listeners_for_redirected_connections_are_reported_where_there_are_none(
    model_of: Build,
) -> None:
    port = "port: {number: 80, protocol: HTTP}, captureMode: IPTABLES"
    model = model_of(sidecar(f"{{ingress: [{{{port}}}], egress: [{{{port}, hosts: ['*/*']}}]}}"))

    assert messages(model) == []
    assert [each.partition(": ")[0] for each in messages(model, redirected=False)] == [
        "spec.ingress[0].captureMode",
        "spec.egress[0].captureMode",
    ]
