"""Proxies that connect become workloads, and are none some time after they have gone."""

from typing import Any

import pytest

from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds._workload_group import WORKLOAD_GROUP
from mesh_discovery.model._model import MeshModel, build_model
from mesh_discovery.model._services import Endpoint, Health
from mesh_discovery.push.registration._group_entries import Registrant
from mesh_discovery.push.registration._registered_workloads import RegisteredWorkloads
from mesh_objects import object_of, service_entry, snapshot, workload_entry

APP = {"app": "a"}
VM = Registrant(
    namespace="default", group="vms", address="10.5.0.1", network="", locality="", labels=()
)
PLACE = ("default", "10.5.0.1")


def group(**spec: Any) -> ConfigObject:
    given = {"template": {"labels": APP, "serviceAccount": "vm"}, **spec}
    return object_of(WORKLOAD_GROUP, "vms", given)


def model(
    workloads: RegisteredWorkloads, *objects: ConfigObject, before: MeshModel | None = None
) -> MeshModel:
    entry = service_entry("web", "web.test", workloadSelector={"labels": APP})
    return build_model(
        workloads.laid_over(snapshot((entry, *objects))), reports=workloads.reports, before=before
    )


def endpoints(workloads: RegisteredWorkloads, *objects: ConfigObject) -> tuple[Endpoint, ...]:
    return model(workloads, *objects).services[0].endpoints


@pytest.fixture
def workloads() -> RegisteredWorkloads:
    return RegisteredWorkloads(grace_s=10)


def test_a_connected_proxy_is_an_endpoint_by_the_template_of_its_group(
    workloads: RegisteredWorkloads,
) -> None:
    template = {"labels": {**APP, "a": "template", "b": "template", "c": "template"}, "weight": 3}
    of = replace_labels(VM, c="proxy")
    given = group(template=template, metadata={"labels": {"b": "group", "c": "group"}})

    assert workloads.connected(of, "s1", now=0)
    (found,) = endpoints(workloads, given)

    assert (found.address, found.weight, found.workload) == ("10.5.0.1", 3, "vms-10.5.0.1")
    assert dict(found.labels) == {**APP, "a": "template", "b": "group", "c": "proxy"}


def replace_labels(registrant: Registrant, **labels: str) -> Registrant:
    return registrant._replace(labels=tuple(labels.items()))


def test_network_and_locality_are_the_proxys_else_the_templates(
    workloads: RegisteredWorkloads,
) -> None:
    given = group(template={"labels": APP, "network": "n1", "locality": "a/b"})
    workloads.connected(VM, "s1", now=0)
    workloads.connected(VM._replace(address="10.5.0.2", network="n2", locality="c"), "s2", now=0)

    assert [(each.network, each.locality) for each in endpoints(workloads, given)] == [
        ("n1", "a/b"),
        ("n2", "c"),
    ]


@pytest.mark.parametrize(
    ("registrant", "name"),
    [
        (VM, "vms-10.5.0.1"),
        (VM._replace(network="n2"), "vms-10.5.0.1-n2"),
        (VM._replace(address="fd00::1"), "vms-fd00--1"),
        (VM._replace(group="g" * 300), "g" * 244 + "-10.5.0.1"),
    ],
)
def test_entries_have_istios_names(registrant: Registrant, name: str) -> None:
    assert registrant.name == name


def test_without_its_group_a_proxy_is_no_workload(workloads: RegisteredWorkloads) -> None:
    workloads.connected(VM, "s1", now=0)

    assert endpoints(workloads) == ()


def test_an_entry_of_the_name_in_the_files_stays_as_it_is(workloads: RegisteredWorkloads) -> None:
    workloads.connected(VM, "s1", now=0)
    own = workload_entry("vms-10.5.0.1", "10.5.0.9", labels=APP)

    assert [each.address for each in endpoints(workloads, group(), own)] == ["10.5.0.9"]


def test_a_proxy_that_has_gone_stays_for_its_grace_period(workloads: RegisteredWorkloads) -> None:
    workloads.connected(VM, "s1", now=0)
    workloads.closed("s1", now=100)

    assert workloads.next_expiry == 110
    assert not workloads.expire(now=109)
    assert len(endpoints(workloads, group())) == 1
    assert workloads.expire(now=110)
    assert endpoints(workloads, group()) == ()
    assert workloads.next_expiry is None


def test_a_proxy_that_comes_back_in_time_was_never_away(workloads: RegisteredWorkloads) -> None:
    workloads.connected(VM, "s1", now=0)
    workloads.closed("s1", now=100)

    assert not workloads.connected(VM, "s2", now=105)
    assert not workloads.expire(now=120)
    assert len(endpoints(workloads, group())) == 1


def test_a_proxy_with_another_stream_has_not_gone(workloads: RegisteredWorkloads) -> None:
    workloads.connected(VM, "s1", now=0)
    workloads.connected(VM, "s2", now=50)
    workloads.closed("s1", now=60)

    assert workloads.next_expiry is None


def test_a_workload_whose_health_is_checked_is_unhealthy_until_it_is_reported_to_be_healthy(
    workloads: RegisteredWorkloads,
) -> None:
    given = group(probe={"tcpSocket": {"port": 8080}})
    workloads.connected(VM, "s1", now=0)

    def health() -> Health:
        return endpoints(workloads, given)[0].health

    assert health() is Health.UNHEALTHY
    assert workloads.reported([PLACE], "s1", healthy=True)
    assert health() is Health.HEALTHY
    assert workloads.reported([PLACE], "s1", healthy=False)
    assert not workloads.reported([PLACE], "s1", healthy=False)
    assert health() is Health.UNHEALTHY


def test_a_report_is_about_entries_and_endpoints_of_files_too(
    workloads: RegisteredWorkloads,
) -> None:
    own = workload_entry("vm", "10.5.0.1", labels=APP)
    inline = service_entry("db", "db.test", endpoints=[{"address": "10.5.0.1"}])
    elsewhere = workload_entry("vm", "10.5.0.1", labels=APP, namespace="other")
    workloads.reported([PLACE], "s1", healthy=False)

    found = model(workloads, own, inline, elsewhere)

    assert {each.health for s in found.services for each in s.endpoints} == {Health.UNHEALTHY}


def test_a_report_about_a_workload_of_the_files_is_forgotten_with_its_stream(
    workloads: RegisteredWorkloads,
) -> None:
    own = workload_entry("vm", "10.5.0.1", labels=APP)
    workloads.reported([PLACE], "s1", healthy=False)

    assert workloads.closed("s1", now=0)
    assert endpoints(workloads, own)[0].health is Health.HEALTHY


def test_a_report_remakes_the_services_of_its_address_alone(
    workloads: RegisteredWorkloads,
) -> None:
    objects = [
        service_entry("one", "one.test", endpoints=[{"address": "10.5.0.1"}]),
        service_entry("two", "two.test", endpoints=[{"address": "10.5.0.2"}]),
    ]
    before = model(workloads, *objects)
    workloads.reported([PLACE], "s1", healthy=False)

    after = model(workloads, *objects, before=before)

    assert after.made.count == 1
    assert [
        new.name for old, new in zip(before.services, after.services, strict=True) if old is not new
    ] == ["one"]
