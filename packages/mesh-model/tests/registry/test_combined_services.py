"""Objects of one host become one service, and aliases lead to services."""

from typing import Any

from istio_config import ConfigObject
from istio_config.kinds.service_entry import Resolution
from mesh_model._aliases import Destined, ServicesByName
from mesh_model._services import Registry, Service
from mesh_model._visibility import NO_OWNERS
from mesh_model.registry._service_registry import build_registry
from mesh_objects import service, service_entry, slice_of, snapshot
from mesh_settings import DOMAIN

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def services(*objects: ConfigObject) -> dict[str, Service]:
    return {
        each.host: each
        for each in build_registry(snapshot(objects), domain=DOMAIN, owners=NO_OWNERS).services
    }


def only(*objects: ConfigObject) -> Service:
    (found,) = services(*objects).values()
    return found


def entry(name: str, created: str, **spec: Any) -> ConfigObject:
    return service_entry(name, "web.test", created=created, **spec)


def test_endpoints_of_service_entries_of_one_host_are_united() -> None:
    found = only(
        entry("new", NEW, endpoints=[{"address": "10.0.0.2"}], subjectAltNames=["b"]),
        entry("old", OLD, endpoints=[{"address": "10.0.0.1"}], subjectAltNames=["a"]),
    )

    assert found.name == "old"
    assert [each.address for each in found.endpoints] == ["10.0.0.1", "10.0.0.2"]
    assert found.subject_alt_names == ("a", "b")


def test_each_endpoint_keeps_the_target_ports_of_its_own_service_entry() -> None:
    other = [{"number": 80, "name": "http", "protocol": "HTTP", "targetPort": 9090}]
    found = only(
        entry("old", OLD, endpoints=[{"address": "10.0.0.1"}]),
        entry("new", NEW, endpoints=[{"address": "10.0.0.2"}], ports=other),
    )
    (port,) = found.ports

    assert [each.port_for(port) for each in found.endpoints] == [8080, 9090]


def test_ports_are_merged_if_the_service_entries_are_alike() -> None:
    admin = [{"number": 81, "name": "admin"}]
    old = entry("old", OLD, endpoints=[{"address": "10.0.0.1"}])

    alike = only(old, entry("new", NEW, ports=admin, endpoints=[{"address": "10.0.0.2"}]))
    unlike = only(old, entry("new", NEW, ports=admin, exportTo=["."]))

    assert [each.number for each in alike.ports] == [80, 81]
    assert [each.address for each in alike.endpoints_of(alike.ports[1])] == ["10.0.0.2"]
    assert [each.number for each in unlike.ports] == [80]


def test_endpoints_of_another_resolution_are_left_out() -> None:
    by_name = entry("new", NEW, resolution="DNS", endpoints=[{"address": "a.test"}])
    found = only(entry("old", OLD, endpoints=[{"address": "10.0.0.1"}]), by_name)

    assert found.resolution is Resolution.STATIC
    assert [each.address for each in found.endpoints] == ["10.0.0.1"]


def test_dns_round_robin_has_one_endpoint() -> None:
    def one(name: str, created: str, address: str) -> ConfigObject:
        endpoints = [{"address": address}]
        return entry(name, created, resolution="DNS_ROUND_ROBIN", endpoints=endpoints)

    found = only(one("old", OLD, "a.test"), one("new", NEW, "b.test"))

    assert [each.address for each in found.endpoints] == ["a.test"]


def test_a_kubernetes_service_wins_over_a_service_entry_of_its_host() -> None:
    host = "web.default.svc.cluster.local"
    found = only(
        service_entry("mine", host, created=OLD, endpoints=[{"address": "10.9.0.1"}]),
        service("web"),
        slice_of("web", "10.0.0.1"),
    )

    assert found.registry is Registry.KUBERNETES
    assert [each.address for each in found.endpoints] == ["10.0.0.1"]


def test_ranges_of_one_address_are_plain_addresses() -> None:
    addresses = ["10.9.0.1/32", "2001:db8::1/128", "10.8.0.0/16", "10.9.0.1"]

    found = only(entry("a", OLD, addresses=addresses))

    assert found.addresses == ("10.9.0.1", "2001:db8::1", "10.8.0.0/16")
    assert found.virtual_addresses == ("10.9.0.1", "2001:db8::1")


def alias(name: str, host: str, namespace: str = "default") -> ConfigObject:
    return service(name, namespace, type="ExternalName", externalName=host)


def test_an_alias_of_an_alias_leads_to_the_service_at_the_end() -> None:
    found = services(
        service("web"),
        alias("one", "web.default.svc.cluster.local"),
        alias("two", "One.default.svc.cluster.local.", "other"),
    )

    assert set(found["web.default.svc.cluster.local"].aliases) == {
        ("default", "one.default.svc.cluster.local"),
        ("other", "two.other.svc.cluster.local"),
    }
    assert len(found) == 1


def test_routes_find_a_service_by_the_names_of_its_aliases() -> None:
    found = services(
        service("web", ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}]),
        service(
            "one",
            type="ExternalName",
            externalName="web.default.svc.cluster.local",
            ports=[],
        ),
        service(
            "two",
            type="ExternalName",
            externalName="one.default.svc.cluster.local",
            ports=[{"name": "http", "port": 80}],
        ),
    )
    by_name = ServicesByName(found)

    web = found["web.default.svc.cluster.local"]
    assert by_name.find("one.default.svc.cluster.local") == Destined(web, None)
    assert by_name.find("two.default.svc.cluster.local") == Destined(web, 80)
    assert by_name.find("web.default.svc.cluster.local") == Destined(web, None)
    assert by_name.find("gone.default.svc.cluster.local") is None


def test_aliases_that_lead_round_are_looked_up_by_dns() -> None:
    found = services(
        alias("one", "two.default.svc.cluster.local"), alias("two", "one.default.svc.cluster.local")
    )

    assert {each.resolution for each in found.values()} == {Resolution.DNS}
    assert len(found) == 2


def test_an_alias_of_a_service_entry_is_another_name_of_it() -> None:
    found = only(entry("web", OLD), alias("one", "web.test"))

    assert found.aliases == (("default", "one.default.svc.cluster.local"),)
