import signal

import pytest

from envoy_supervisor import AdminError, RestartRefused
from mesh_lifecycle import stop_signals
from status_parts import Parts


async def test_ready_follows_the_conditions_and_gives_the_reason() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping)
        envoy = parts.readiness.register("envoy")
        envoy.unset("workers have not yet started")
        assert await parts.ask("GET", "/healthz/ready", "10.0.0.1") == (
            503,
            "envoy: workers have not yet started\n",
        )
        envoy.set()
        assert await parts.ask("GET", "/healthz/ready", "10.0.0.1") == (200, "")


async def test_a_stopping_agent_is_not_ready_and_says_why() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping)
        stopping.request("SIGTERM")
        assert await parts.ask("GET", "/healthz/ready") == (503, "stopping: SIGTERM\n")


async def test_quit_stops_and_drain_drains() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping)
        assert (await parts.ask("POST", "/drain", "::1"))[0] == 200
        assert parts.drained == 1
        assert not stopping.requested
        assert (await parts.ask("POST", "/quitquitquit", "127.0.3.1"))[0] == 200
        assert stopping.reason == "/quitquitquit"


async def test_a_drain_that_envoy_does_not_hear_of_says_so() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping)
        parts.deaf = AdminError("connection refused")
        assert await parts.ask("POST", "/drain") == (
            503,
            "envoy was not told to drain: connection refused\n",
        )


@pytest.mark.parametrize(
    "path",
    [
        "/quitquitquit",
        "/drain",
        "/restart",
        "/debug/status",
        "/debug/config",
        "/debug/config_dump",
        "/debug/dns",
        "/debug/logging",
        "/debug/control-plane",
        "/debug/control-plane/syncz",
    ],
)
@pytest.mark.parametrize("peer", ["10.0.0.1", "fe80::1%eth0", "2001:db8::1"])
async def test_others_machines_are_refused(path: str, peer: str) -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping)
        for method in ("GET", "POST"):
            assert (await parts.ask(method, path, peer))[0] == 403
        assert not stopping.requested
        assert parts.drained == 0


async def test_wrong_methods_and_unknown_paths_are_answered_with_what_is_right() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping)
        assert await parts.ask("GET", "/quitquitquit") == (405, "use POST\n")
        assert await parts.ask("POST", "/healthz/ready") == (405, "use GET\n")
        status, text = await parts.ask("GET", "/metricz")
        assert status == 404
        assert "/healthz/ready" in text
        assert not stopping.requested


async def test_restart_says_what_came_of_it() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping)
        assert await parts.ask("POST", "/restart") == (200, "a new envoy has taken over\n")
        parts.changed = False
        status, text = await parts.ask("POST", "/restart")
        assert (status, "nothing has changed" in text) == (200, True)
        parts.changed = RestartRefused("no such field")
        assert await parts.ask("POST", "/restart") == (
            409,
            "envoy was not replaced: no such field\n",
        )


async def test_metrics_are_for_all_unless_kept_on_the_machine() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        for path in ("/metrics", "/stats/prometheus"):
            assert await Parts(stopping).ask("GET", path, "10.0.0.1") == (200, "metrics")
            kept = Parts(stopping, local_metrics=True)
            assert (await kept.ask("GET", path, "10.0.0.1"))[0] == 403
            assert (await kept.ask("GET", path))[0] == 200


async def test_the_name_table_is_shown_to_this_machine_only() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping)
        status, text = await parts.ask("GET", "/debug/ndsz")
        assert (status, "ISTIO_META_DNS_CAPTURE" in text) == (404, True)
        parts.table = b'{"table": {}}'
        assert await parts.ask("GET", "/debug/ndsz") == (200, '{"table": {}}\n')
        assert (await parts.ask("GET", "/debug/ndsz", "10.0.0.1"))[0] == 403


async def test_a_starting_agent_tells_only_whether_it_is_ready() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping, started=False)
        parts.readiness.register("certificate")
        for method in ("GET", "HEAD"):
            ready = await parts.ask(method, "/healthz/ready", "10.0.0.1")
            assert ready == (503, "certificate: not yet\n")
        for method, path in (
            *(("GET", each) for each in ("/debug/status", "/debug/ndsz", "/metrics")),
            *(("POST", each) for each in ("/drain", "/restart")),
        ):
            status, text = await parts.ask(method, path)
            assert (status, "the agent is still starting" in text) == (503, True), path
        assert (await parts.ask("POST", "/quitquitquit"))[0] == 200


async def test_what_only_envoy_can_do_is_not_done_without_one() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping, envoy=False)
        assert await parts.ask("POST", "/drain") == (
            503,
            "envoy was not told to drain: the agent runs no Envoy\n",
        )
        assert await parts.ask("POST", "/restart") == (
            409,
            "envoy was not replaced: the agent runs no Envoy\n",
        )


async def test_the_applications_probes_are_done_while_the_agent_starts() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping, started=False)
        for path in ("/app-health/other/livez", "/app-lifecycle/web/prestopz"):
            assert (await parts.ask("GET", path, "10.0.0.1"))[0] == 400
        status, text = await parts.ask("GET", "/app-health/web/livez", "10.0.0.1")
        assert (status, "TCP 127.0.0.1:1" in text) == (500, True)


async def test_envoys_configuration_is_shown_to_this_machine() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        assert await Parts(stopping).ask("GET", "/debug/config_dump") == (200, "dump ")
        without = await Parts(stopping, envoy=False).ask("GET", "/debug/config_dump")
        assert without == (404, "the agent runs no Envoy\n")


async def test_profiles_of_go_are_said_not_to_exist() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        for path in ("/debug/pprof/", "/debug/pprof/profile"):
            status, text = await Parts(stopping).ask("GET", path)
            assert (status, "no Go program" in text) == (404, True)
