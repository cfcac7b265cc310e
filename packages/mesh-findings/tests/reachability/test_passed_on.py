"""Warnings of services whose connections redirected clients pass on."""

from collections.abc import Callable

import pytest

from documents import entry, peer_authentication
from headless_services import HOST, Pod, headless_service
from mesh_findings import review
from mesh_model import MeshModel

Build = Callable[..., MeshModel]
STRICT = peer_authentication("STRICT")
BARE = Pod("h-1", "10.0.0.2", has_sidecar=False)
ANYWHERE = entry(
    "any",
    "hosts: [any.example], location: MESH_INTERNAL, ports: [{number: 80, name: http}]",
    namespace="b",
)
OTHER = entry(
    "other",
    "hosts: [other.b.svc.cluster.local], resolution: STATIC, "
    "ports: [{number: 8080, name: http}], endpoints: [{address: 10.0.0.9}]",
    namespace="b",
)


def pods(*more: Pod) -> str:
    return headless_service((Pod("h-0", "10.0.0.1"), *more))


def rule(host: str, spec: str) -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\n"
        f"metadata: {{name: rule, namespace: b}}\nspec: {{host: {host}, {spec}}}\n"
    )


def virtual_service(host: str, destination: str, *, more: str = "") -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\n"
        f"metadata: {{name: vs, namespace: b}}\nspec: {{hosts: ['{host}'], {more}http: [{{route: "
        f"[{{destination: {{{destination}}}}}]}}]}}\n"
    )


SUBSETS = rule(HOST, "subsets: [{name: one, labels: {pod: one}}]")


@pytest.mark.parametrize(
    ("documents", "messages"),
    [
        ((pods(),), []),
        ((pods(), STRICT), []),
        ((pods(BARE),), ["call every one in plaintext"] * 4),
        ((pods(BARE), STRICT), ["others nothing else: redirected clients"] * 4),
        ((pods(BARE), peer_authentication("DISABLE")), []),
        ((pods(BARE), rule(HOST, "trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}")), []),
        ((ANYWHERE,), []),
        ((ANYWHERE, STRICT), ["resolution NONE knows no endpoints"]),
        ((ANYWHERE, STRICT, rule("any.example", "trafficPolicy: {tls: {mode: DISABLE}}")), []),
        ((pods(), virtual_service("h", "host: h")), []),
        ((pods(), virtual_service(f"h-0.{HOST}", "host: h")), []),
        ((pods(), SUBSETS, virtual_service("h", "host: h, subset: one")), ["whichever subset"]),
        ((pods(), OTHER, virtual_service("other", "host: h")), ["none of its endpoints"]),
        ((pods(), virtual_service("x.example", "host: h", more="gateways: [gw], ")), []),
    ],
)
def test_what_redirected_clients_cant_do_is_reported(
    model_of: Build, documents: tuple[str, ...], messages: list[str]
) -> None:
    warnings = review(model_of(*documents)).warnings

    assert len(warnings) == len(messages), [str(each) for each in warnings]
    assert all(text in each.message for text, each in zip(messages, warnings, strict=True))
    assert all(each.field.startswith("spec.") for each in warnings)


def test_it_is_reported_after_a_pod_came_as_from_the_beginning(model_of: Build) -> None:
    before, after = model_of(pods(), STRICT), model_of(pods(BARE), STRICT)

    edited = review(after, review(before))

    assert edited.warnings == review(after).warnings
    assert edited.warnings
    assert review(before, edited).warnings == ()
