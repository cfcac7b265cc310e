from datetime import UTC, datetime

import pytest

import xds_proxy
from mesh_agent.readiness._envoy import EnvoyHealth, assess
from mesh_protos import type_urls

GOOD: dict[str, int | str] = {
    "cluster_manager.cds.update_success": 1,
    "listener_manager.lds.update_success": 1,
    "server.state": 0,
    "listener_manager.workers_started": 1,
}


AT = datetime(2030, 1, 1, tzinfo=UTC)


def relay(**types: xds_proxy.TypeStatus) -> xds_proxy.RelayStatus:
    return xds_proxy.RelayStatus(
        connected=False,
        since=AT,
        last_error="connection refused",
        types={getattr(type_urls, name): known for name, known in types.items()},
        streams=0,
    )


RELAY = relay()


def test_configured_and_live_is_good() -> None:
    assert assess(EnvoyHealth(), GOOD, relay=RELAY) == (
        EnvoyHealth(configured=True, live=True),
        None,
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {
                "cluster_manager.cds.update_success": 0,
                "listener_manager.lds.update_success": 0,
            },
            "not received from the control plane (connection refused)",
        ),
        ({"listener_manager.lds.update_success": 0}, "not fully received"),
        (
            {
                "listener_manager.lds.update_success": 0,
                "listener_manager.lds.update_rejected": 2,
            },
            "but rejected: listeners (LDS), 2 times",
        ),
        ({"server.state": 2}, "current state is PRE_INITIALIZING"),
        ({"server.state": "?"}, "server state is not yet known"),
        ({"listener_manager.workers_started": 0}, "workers have not yet started"),
    ],
)
def test_each_fault_has_its_reason(change: dict[str, int | str], reason: str) -> None:
    health, fault = assess(EnvoyHealth(), {**GOOD, **change}, relay=RELAY)
    assert not health.good
    assert fault is not None
    assert reason in fault


def test_a_refusal_of_long_ago_is_not_reported_as_one_of_now() -> None:
    stats = {
        **GOOD,
        "cluster_manager.cds.update_rejected": 3,
        "listener_manager.lds.update_success": 0,
        "listener_manager.lds.update_rejected": 1,
    }
    pending = xds_proxy.TypeStatus(version="2", acked=False, nack=None, in_use=None, at=AT)
    _, fault = assess(EnvoyHealth(), stats, relay=relay(LISTENER=pending))
    assert fault == (
        "configuration not fully received from the control plane: there are no listeners (LDS) yet"
    )
    refused = xds_proxy.TypeStatus(
        version="2", acked=False, nack="bad\nlistener web", in_use=None, at=AT
    )
    _, fault = assess(EnvoyHealth(), stats, relay=relay(LISTENER=refused))
    assert fault == (
        "configuration received from the control plane, but rejected: "
        "listeners (LDS), version '2': bad listener web"
    )


def test_no_stats_at_all_is_not_good() -> None:
    health, fault = assess(EnvoyHealth(), {}, relay=RELAY)
    assert not health.good
    assert fault is not None


def test_what_was_good_once_stays_good() -> None:
    health, _ = assess(EnvoyHealth(), GOOD, relay=RELAY)
    draining = {**GOOD, "server.state": 1, "cluster_manager.cds.update_success": 0}
    assert assess(health, draining, relay=RELAY) == (health, None)
