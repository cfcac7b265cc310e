"""Proxies that connect become workloads, and are none some time after they have gone."""

from dataclasses import replace
from typing import Any

import pytest

from istio_config import ConfigObject
from istio_config.kinds.workload_group import WORKLOAD_GROUP
from mesh_discovery._registration_limits import RegistrationLimits
from mesh_discovery.sources.registration._group_entries import Registrant
from mesh_discovery.sources.registration._registered_workloads import (
    RegisteredWorkloads,
    TooManyWorkloadsError,
)
from mesh_discovery.sources.registration._workload_observer import WorkloadObserver
from mesh_model import Endpoint, Facts, Health, MeshModel, build_model
from mesh_objects import object_of, service_entry, snapshot, workload_entry

APP = {"app": "a"}
VM = Registrant(namespace="default", group="vms", account="vm", address="10.5.0.1")
PLACE = ("default", "vm", "10.5.0.1")


def group(**spec: Any) -> ConfigObject:
    given = {"template": {"labels": APP, "serviceAccount": "vm"}, **spec}
    return object_of(WORKLOAD_GROUP, "vms", given)


def model(
    workloads: RegisteredWorkloads, *objects: ConfigObject, before: MeshModel | None = None
) -> MeshModel:
    entry = service_entry("web", "web.test", workloadSelector={"labels": APP})
    facts = Facts(snapshot=snapshot((entry, *objects)))
    return build_model(WorkloadObserver(workloads).add_to(facts), before=before)


def endpoints(workloads: RegisteredWorkloads, *objects: ConfigObject) -> tuple[Endpoint, ...]:
    return model(workloads, *objects).services[0].endpoints


def connect(
    workloads: RegisteredWorkloads, registrant: Registrant, stream: str, *, now: float
) -> bool:
    return workloads.connected(registrant, stream, now=now, monotonic=now)


@pytest.fixture
def workloads() -> RegisteredWorkloads:
    return RegisteredWorkloads(grace_s=10)


def test_a_connected_proxy_is_an_endpoint_by_the_template_of_its_group(
    workloads: RegisteredWorkloads,
) -> None:
    template = {
        "labels": {**APP, "a": "template", "b": "template"},
        "weight": 3,
        "serviceAccount": "vm",
    }
    given = group(template=template, metadata={"labels": {"b": "group"}})

    assert connect(workloads, VM, "s1", now=0)
    (found,) = endpoints(workloads, given)

    assert (found.address, found.weight, found.workload) == ("10.5.0.1", 3, "vms-10.5.0.1")
    assert dict(found.labels) == {**APP, "a": "template", "b": "group"}
    assert (found.service_account, found.speaks_mutual_tls) == ("vm", True)


def test_a_workload_of_a_group_without_an_account_has_the_one_that_it_proved(
    workloads: RegisteredWorkloads,
) -> None:
    connect(workloads, VM._replace(account="default"), "s1", now=0)

    (found,) = endpoints(workloads, group(template={"labels": APP}))

    assert (found.service_account, found.speaks_mutual_tls) == ("default", True)


def test_network_and_locality_are_the_templates_else_the_proxys(
    workloads: RegisteredWorkloads,
) -> None:
    given = group(template={"labels": APP, "network": "n1", "serviceAccount": "vm"})
    connect(workloads, VM._replace(network="n2", locality="c"), "s1", now=0)

    assert [(each.network, each.locality) for each in endpoints(workloads, given)] == [("n1", "c")]


def test_a_group_that_is_for_others_now_has_the_workload_no_longer(
    workloads: RegisteredWorkloads,
) -> None:
    ranged = object_of(
        WORKLOAD_GROUP,
        "vms",
        {"template": {"labels": APP, "serviceAccount": "vm"}},
        annotations={"mesh-discovery/addresses": "10.5.0.0/24"},
    )
    connect(workloads, VM._replace(by_range=True), "s1", now=0)

    assert len(endpoints(workloads, ranged)) == 1
    assert endpoints(workloads, group()) == ()
    assert endpoints(workloads, group(template={"labels": APP, "serviceAccount": "db"})) == ()


def test_the_newest_that_a_proxy_tells_of_itself_counts(workloads: RegisteredWorkloads) -> None:
    connect(workloads, VM, "s1", now=0)
    endpoints(workloads, group())

    assert connect(workloads, VM._replace(locality="r1"), "s2", now=1)

    assert [each.locality for each in endpoints(workloads, group())] == ["r1"]


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
    connect(workloads, VM, "s1", now=0)

    assert endpoints(workloads) == ()


def test_an_entry_of_the_name_in_the_files_stays_as_it_is(workloads: RegisteredWorkloads) -> None:
    connect(workloads, VM, "s1", now=0)
    own = workload_entry("vms-10.5.0.1", "10.5.0.9", labels=APP)

    assert [each.address for each in endpoints(workloads, group(), own)] == ["10.5.0.9"]


def test_a_proxy_that_has_gone_stays_for_its_grace_period(workloads: RegisteredWorkloads) -> None:
    connect(workloads, VM, "s1", now=0)
    workloads.closed("s1", now=100)

    assert workloads.next_expiry == 110
    assert not workloads.expire(now=109)
    assert len(endpoints(workloads, group())) == 1
    assert workloads.expire(now=110)
    assert endpoints(workloads, group()) == ()
    assert workloads.next_expiry is None


def test_a_proxy_that_comes_back_in_time_was_never_away(workloads: RegisteredWorkloads) -> None:
    connect(workloads, VM, "s1", now=0)
    workloads.closed("s1", now=100)

    assert not connect(workloads, VM, "s2", now=105)
    assert not workloads.expire(now=120)
    assert len(endpoints(workloads, group())) == 1


def test_a_proxy_with_another_stream_has_not_gone(workloads: RegisteredWorkloads) -> None:
    connect(workloads, VM, "s1", now=0)
    connect(workloads, VM, "s2", now=50)
    workloads.closed("s1", now=60)

    assert workloads.next_expiry is None


def test_a_workload_whose_health_is_checked_is_unhealthy_until_it_is_reported_to_be_healthy(
    workloads: RegisteredWorkloads,
) -> None:
    given = group(probe={"tcpSocket": {"port": 8080}})
    connect(workloads, VM, "s1", now=0)

    def health() -> Health:
        return endpoints(workloads, given)[0].health

    assert health() is Health.UNHEALTHY
    assert workloads.on_report([PLACE], "s1", healthy=True)
    assert health() is Health.HEALTHY
    assert workloads.on_report([PLACE], "s1", healthy=False)
    assert not workloads.on_report([PLACE], "s1", healthy=False)
    assert health() is Health.UNHEALTHY


def test_a_report_is_about_entries_and_endpoints_of_files_too(
    workloads: RegisteredWorkloads,
) -> None:
    own = workload_entry("vm", "10.5.0.1", labels=APP, serviceAccount="vm")
    inline = service_entry(
        "db", "db.test", endpoints=[{"address": "10.5.0.1", "serviceAccount": "vm"}]
    )
    workloads.on_report([PLACE], "s1", healthy=False)

    found = model(workloads, own, inline)

    assert {each.health for s in found.services for each in s.endpoints} == {Health.UNHEALTHY}


def test_a_report_about_a_workload_of_the_files_is_forgotten_with_its_stream(
    workloads: RegisteredWorkloads,
) -> None:
    own = workload_entry("vm", "10.5.0.1", labels=APP, serviceAccount="vm")
    workloads.on_report([PLACE], "s1", healthy=False)

    assert workloads.closed("s1", now=0)
    assert endpoints(workloads, own)[0].health is Health.HEALTHY


def test_a_report_remakes_the_services_of_its_address_alone(
    workloads: RegisteredWorkloads,
) -> None:
    objects = [
        service_entry(
            "one", "one.test", endpoints=[{"address": "10.5.0.1", "serviceAccount": "vm"}]
        ),
        service_entry("two", "two.test", endpoints=[{"address": "10.5.0.2"}]),
    ]
    before = model(workloads, *objects)
    workloads.on_report([PLACE], "s1", healthy=False)

    after = model(workloads, *objects, before=before)

    assert after.registry.count == 1
    assert [
        new.name for old, new in zip(before.services, after.services, strict=True) if old is not new
    ] == ["one"]


@pytest.mark.parametrize("account", ["", "other"])
def test_a_report_is_not_about_workloads_of_another_account(
    workloads: RegisteredWorkloads, account: str
) -> None:
    own = workload_entry("vm", "10.5.0.1", labels=APP, serviceAccount=account)
    elsewhere = service_entry(
        "db", "db.test", namespace="other", endpoints=[{"address": "10.5.0.1"}]
    )
    workloads.on_report([PLACE], "s1", healthy=False)

    found = model(workloads, own, elsewhere)

    assert {each.health for s in found.services for each in s.endpoints} == {Health.HEALTHY}


FEW = RegistrationLimits(of_identity=2, in_all=3, of_identity_per_s=0.1, in_all_per_s=0.1)


def vm(number: int, *, account: str = "vm") -> Registrant:
    return VM._replace(address=f"10.5.0.{number}", account=account)


def test_an_identity_has_so_many_workloads_and_all_together_so_many() -> None:
    workloads = RegisteredWorkloads(grace_s=10, limits=FEW)
    for number in (1, 2):
        connect(workloads, vm(number), f"s{number}", now=0)

    with pytest.raises(TooManyWorkloadsError, match="account vm of default has 2 registered"):
        connect(workloads, vm(3), "s3", now=1000)
    connect(workloads, vm(3, account="db"), "s3", now=1000)
    with pytest.raises(TooManyWorkloadsError, match="3 workloads are registered, the most"):
        connect(workloads, vm(4, account="db"), "s4", now=1000)

    assert len(endpoints(workloads, group())) == 2


def test_one_that_registers_again_and_again_has_to_wait_and_others_have_not() -> None:
    workloads = RegisteredWorkloads(grace_s=0, limits=replace(FEW, in_all=9, in_all_per_s=0))
    for number in (1, 2):
        connect(workloads, vm(number), "s", now=0)
        workloads.closed("s", now=0)
        workloads.expire(now=0)

    with pytest.raises(TooManyWorkloadsError, match="registers workloads too often"):
        connect(workloads, vm(3), "s", now=9)
    connect(workloads, vm(3, account="db"), "t", now=9)
    assert connect(workloads, vm(4), "s", now=10)


def test_connecting_anew_within_the_grace_period_costs_nothing_of_what_is_allowed() -> None:
    workloads = RegisteredWorkloads(grace_s=10, limits=FEW)
    for number in range(100):
        assert connect(workloads, VM, f"s{number}", now=0) is (number == 0)
        workloads.closed(f"s{number}", now=0)

    assert connect(workloads, vm(2), "another", now=0)
