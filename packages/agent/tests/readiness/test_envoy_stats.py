import pytest

from mesh_agent.readiness._envoy import EnvoyHealth, judge

GOOD: dict[str, int | str] = {
    "cluster_manager.cds.update_success": 1,
    "listener_manager.lds.update_success": 1,
    "server.state": 0,
    "listener_manager.workers_started": 1,
}


SAID = "connection refused"


def test_configured_and_live_is_good() -> None:
    assert judge(EnvoyHealth(), GOOD, control_plane=SAID) == (
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
            "not received from the control plane (connection refused): cds 0",
        ),
        ({"listener_manager.lds.update_success": 0}, "not fully received"),
        (
            {
                "listener_manager.lds.update_success": 0,
                "listener_manager.lds.update_rejected": 2,
            },
            "rejected: cds 1 accepted, 0 rejected; lds 0 accepted, 2 rejected",
        ),
        ({"server.state": 2}, "current state is PRE_INITIALIZING"),
        ({"server.state": "?"}, "server state is not yet known"),
        ({"listener_manager.workers_started": 0}, "workers have not yet started"),
    ],
)
def test_each_fault_has_its_reason(change: dict[str, int | str], reason: str) -> None:
    health, fault = judge(EnvoyHealth(), {**GOOD, **change}, control_plane=SAID)
    assert not health.good
    assert fault is not None
    assert reason in fault


def test_no_stats_at_all_is_not_good() -> None:
    health, fault = judge(EnvoyHealth(), {}, control_plane=SAID)
    assert not health.good
    assert fault is not None


def test_what_was_good_once_stays_good() -> None:
    health, _ = judge(EnvoyHealth(), GOOD, control_plane=SAID)
    draining = {**GOOD, "server.state": 1, "cluster_manager.cds.update_success": 0}
    assert judge(health, draining, control_plane=SAID) == (health, None)
