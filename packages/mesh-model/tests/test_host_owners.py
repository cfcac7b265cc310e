"""Whose a host is in a strict mesh, and where what is said of it is seen."""

from collections.abc import Callable, Sequence

import pytest

from istio_config.kinds.kubernetes import NAMESPACE
from mesh_model import MeshModel
from mesh_model._visibility import NO_OWNERS, host_owners
from mesh_objects import object_of

GIVEN = {
    "shop": {
        "mesh-discovery/hosts": "*.shop.example, api.bank.example",
        "mesh-discovery/addresses": "10.1.0.0/16, fd00:1::/32, 192.0.2.7",
    },
    "evil": {},
}
OWNERS = host_owners(
    [object_of(NAMESPACE, name, {}, annotations=given) for name, given in GIVEN.items()],
    root_namespace="istio-system",
    domain="cluster.local",
)


@pytest.mark.parametrize(
    ("namespace", "host", "expected"),
    [
        # A host of the mesh says by its form whose it is.
        ("evil", "web.evil.svc.cluster.local", True),
        ("evil", "WEB.evil.svc.cluster.local.", True),
        ("evil", "*.evil.svc.cluster.local", True),
        ("evil", "db-0.db.evil.svc.cluster.local", True),
        ("evil", "web.shop.svc.cluster.local", False),
        ("evil", "*.shop.svc.cluster.local", False),
        ("shop", "web.shop.svc.cluster.local", True),
        ("evil", "web.notevil.svc.cluster.local", False),
        ("evil", "evil.svc.cluster.local", False),
        # What spans namespaces, and what may be short for another's, has no owner.
        ("evil", "*.svc.cluster.local", False),
        ("evil", "*evil.svc.cluster.local", False),
        ("evil", "*.local", False),
        ("evil", "*", False),
        ("evil", "web", False),
        ("evil", "web.evil", False),
        ("evil", "web.shop", False),
        ("evil", "web.shop.svc", False),
        ("evil", "10.96.0.7", False),
        # Other hosts are given by annotations.
        ("shop", "a.shop.example", True),
        ("shop", "*.shop.example", True),
        ("shop", "*.a.shop.example", True),
        ("shop", "shop.example", False),
        ("shop", "*.example", False),
        ("shop", "api.bank.example", True),
        ("shop", "*.bank.example", False),
        ("evil", "a.shop.example", False),
        ("other", "a.other.example", False),
        # The root namespace speaks for all.
        ("istio-system", "*", True),
        ("istio-system", "web.shop.svc.cluster.local", True),
    ],
)
def test_a_host_is_its_namespaces_by_its_form_or_by_the_annotation(
    namespace: str, host: str, *, expected: bool
) -> None:
    assert OWNERS.owns(namespace, host) is expected
    assert NO_OWNERS.owns(namespace, host)


@pytest.mark.parametrize(
    ("namespace", "address", "expected"),
    [
        ("shop", "10.1.2.3", True),
        ("shop", "10.1.2.0/24", True),
        ("shop", "10.0.0.0/8", False),
        ("shop", "10.96.0.7", False),
        ("shop", "fd00:1::7", True),
        ("shop", "fd00:2::7", False),
        ("shop", "192.0.2.7", True),
        ("shop", "192.0.2.8", False),
        ("evil", "10.1.2.3", False),
        ("istio-system", "10.96.0.7", True),
    ],
)
def test_an_address_is_its_namespaces_by_the_annotation(
    namespace: str, address: str, *, expected: bool
) -> None:
    assert OWNERS.has_address(namespace, address) is expected
    assert NO_OWNERS.has_address(namespace, address)


@pytest.mark.parametrize(
    ("export_to", "hosts", "addresses", "expected"),
    [
        (("*",), ["web.shop.svc.cluster.local"], [], ("*",)),
        (("evil",), ["web.shop.svc.cluster.local"], ["10.1.0.9"], ("evil",)),
        (("*",), ["web.evil.svc.cluster.local"], [], (".",)),
        (("*",), ["web.shop.svc.cluster.local", "x.example"], [], (".",)),
        (("*",), ["web.shop.svc.cluster.local"], ["10.96.0.7"], (".",)),
        ((".", "evil"), ["x.example"], [], (".",)),
        (("shop", "evil"), ["x.example"], [], (".",)),
        (("evil",), ["x.example"], [], ("~",)),
        (("~",), ["x.example"], [], ("~",)),
    ],
)
def test_what_is_not_the_namespaces_is_seen_at_home_alone(
    export_to: tuple[str, ...],
    hosts: Sequence[str],
    addresses: Sequence[str],
    expected: tuple[str, ...],
) -> None:
    found = OWNERS.exported("shop", export_to, hosts=hosts, addresses=addresses)
    assert found == expected
    assert NO_OWNERS.exported("shop", export_to, hosts=hosts, addresses=addresses) == export_to


def test_owners_are_compared_by_what_is_given() -> None:
    same = host_owners([], root_namespace="istio-system", domain="cluster.local")
    assert same == host_owners([], root_namespace="istio-system", domain="cluster.local")
    assert same != OWNERS
    assert same != NO_OWNERS


def test_hosts_of_another_domain_are_not_a_namespaces_own(
    model_of: Callable[..., MeshModel],
) -> None:
    """The form of a host says whose it is only in the domain of the mesh."""
    owners = model_of(domain="corp.example", strict_namespaces=True).owners
    assert owners.owns("a", "reviews.a.svc.corp.example")
    assert not owners.owns("a", "reviews.a.svc.cluster.local")
