"""The short names that a proxy knows a host by."""

import pytest

from envoy_config.plan._envoy_names import short_names


@pytest.mark.parametrize(
    ("host", "domain", "wanted"),
    [
        ("web.a.svc.cluster.local", "a.svc.cluster.local", ("web", "web.a", "web.a.svc")),
        ("web.b.svc.cluster.local", "a.svc.cluster.local", ("web.b", "web.b.svc")),
        ("web.a.mesh", "a.mesh", ("web", "web.a")),
        ("web.example.com", "a.svc.cluster.local", ()),
        ("*.a.svc.cluster.local", "a.svc.cluster.local", ()),
        ("web.a.svc.cluster.local", "a", ()),
    ],
)
def test_short_names_are_those_of_the_proxys_own_domain(
    host: str, domain: str, wanted: tuple[str, ...]
) -> None:
    assert short_names(host, domain) == wanted
