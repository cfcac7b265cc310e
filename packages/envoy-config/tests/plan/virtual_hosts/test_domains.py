"""The Host headers that mean a service to a proxy."""

from dataclasses import replace

import pytest

from envoy_config.plan.virtual_hosts._domains import service_domains
from istio_config.kinds.service_entry import Resolution
from mesh_model import Service

SERVICE = Service(
    host="web.a.svc.cluster.local",
    namespace="a",
    name="web",
    ports=(),
    addresses=("10.9.0.1", "2001:db8::1"),
    resolution=Resolution.STATIC,
    external=False,
)
FULL = ("web.a.svc.cluster.local", "web.a.svc.cluster.local.")
ADDRESSES = ("10.9.0.1", "[2001:db8::1]")


@pytest.mark.parametrize(
    ("domain", "short"),
    [
        ("a.svc.cluster.local", ("web", "web.a", "web.a.svc")),
        ("b.svc.cluster.local", ("web.a", "web.a.svc")),
    ],
)
def test_short_names_are_those_that_the_proxys_search_path_completes(
    domain: str, short: tuple[str, ...]
) -> None:
    assert service_domains(SERVICE, domain) == (*FULL, *short, *ADDRESSES)


def test_a_host_outside_of_the_mesh_has_no_short_names() -> None:
    outside = replace(SERVICE, host="api.example.com", addresses=())
    assert service_domains(outside, "a.svc.cluster.local") == (
        "api.example.com",
        "api.example.com.",
    )


def test_no_short_name_is_taken_that_is_another_services_host() -> None:
    found = service_domains(SERVICE, "a.svc.cluster.local", full_hosts={"web.a"})
    assert "web.a" not in found
    assert "web" in found
