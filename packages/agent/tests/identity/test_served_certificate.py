"""The certificate that Envoy serves is compared with the newest one."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from envoy.config.listener.v3 import listener_pb2
from google.protobuf import json_format

import certclient
from certclient.testing import FakeAuthority
from envoy_supervisor import JSON, AdminError
from mesh_agent.identity._served_certificate import SETTLES_S, ServedCertificate, served_by
from mesh_lifecycle import in_background
from mesh_lifecycle.testing import ManualClock
from mesh_testkit import until
from running_agents import LISTENER_PORT, RunningAgent, listener, own_address, running_agent

ID = "spiffe://cluster.local/ns/shop/sa/web"


def context_of(serial: int | str, uri: str = ID) -> Mapping[str, JSON]:
    """One TLS context, as Envoy's `/certs` tells it."""
    text = serial if isinstance(serial, str) else f"{serial:x}"
    return {
        "ca_cert": [{"serial_number": "01", "subject_alt_names": []}],
        "cert_chain": [
            {
                "path": "<inline>",
                "serial_number": text,
                "subject_alt_names": [{"dns": "web"}, {"uri": uri}],
                "expiration_time": "2030-01-01T00:00:00Z",
            }
        ],
    }


class Envoy:
    """Serves what the test says."""

    def __init__(self) -> None:
        self.pid = 7
        self.contexts: Sequence[Mapping[str, JSON]] = ()
        self.asked = 0
        self.deaf = False

    @property
    def admin(self) -> "Envoy":
        return self

    async def certs(self) -> Sequence[Mapping[str, JSON]]:
        self.asked += 1
        if self.deaf:
            raise AdminError("connection refused")
        return self.contexts


@asynccontextmanager
async def compared(
    envoy: Envoy, clock: ManualClock, *, foreign: bool = False
) -> AsyncIterator[tuple[ServedCertificate, certclient.Certificates]]:
    config = certclient.RotationConfig(
        spiffe_id=certclient.SpiffeId.parse(ID), lifetime=timedelta(hours=24)
    )
    authority = FakeAuthority(clock=clock)
    async with certclient.keep_fresh(config, authority, clock=clock) as kept:
        await kept.wait_for_first()
        served = ServedCertificate(envoy, None if foreign else kept, spiffe_id=ID, clock=clock)
        async with in_background(served.follow(), name="served"):
            yield served, kept


def trouble_of(served: ServedCertificate) -> str | None:
    return served.trouble


def serial_of(certificates: certclient.Certificates) -> int:
    assert certificates.latest is not None
    return certificates.latest.serial


async def test_the_newest_certificate_matches(caplog: pytest.LogCaptureFixture) -> None:
    envoy, clock = Envoy(), ManualClock()
    async with compared(envoy, clock) as (served, kept):
        envoy.contexts = [context_of(serial_of(kept)), context_of("0f", "spiffe://other/x")]
        await clock.advance(SETTLES_S)
        assert served.describe()["matches"] is True
        assert served.describe()["serial"] == f"{serial_of(kept):x}"
        assert served.trouble is None
    assert not [r for r in caplog.records if r.name.startswith("mesh_agent")]


async def test_another_certificate_is_trouble_once_envoy_had_time_and_until_it_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    envoy, clock = Envoy(), ManualClock()
    caplog.set_level(logging.INFO, "mesh_agent")
    async with compared(envoy, clock) as (served, kept):
        old = serial_of(kept)
        envoy.contexts = [context_of(old)]
        await clock.advance(SETTLES_S)
        await kept.renew()
        await clock.advance(SETTLES_S / 2)
        assert trouble_of(served) is None, "it has time to take the new one"
        await clock.advance(SETTLES_S * 2)
        assert served.describe()["matches"] is False, "and has not taken it"
        assert trouble_of(served) == (
            f"envoy (pid 7) serves the certificate with serial {old:x}, "
            f"not the newest one with serial {serial_of(kept):x}"
        )
        await clock.advance(600)
        envoy.contexts = [context_of(old), context_of(serial_of(kept))]
        await clock.advance(60)
        assert trouble_of(served), "one context has the old one still"
        envoy.contexts = [context_of(f"0{serial_of(kept):x}")]
        await clock.advance(60)
        assert trouble_of(served) is None
    messages = [r.getMessage() for r in caplog.records if "certificate" in r.getMessage()]
    assert messages.count("envoy serves the newest certificate again") == 1
    assert 1 <= messages.count("envoy serves another certificate") <= 2, "the serials changed once"


async def test_envoy_is_asked_seldom_while_nothing_changes() -> None:
    envoy, clock = Envoy(), ManualClock()
    async with compared(envoy, clock) as (_, kept):
        envoy.contexts = [context_of(serial_of(kept))]
        await clock.advance(SETTLES_S)
        asked = envoy.asked
        await clock.advance(3600)
        assert envoy.asked - asked <= 13, "every five minutes"
        asked = envoy.asked
        envoy.pid = 8
        await clock.advance(31)
        assert envoy.asked > asked, "another Envoy serves"


@pytest.mark.parametrize("how", ["serves none", "does not answer", "another's"])
async def test_nothing_is_compared_where_nothing_can_be(how: str) -> None:
    envoy, clock = Envoy(), ManualClock()
    envoy.deaf = how == "does not answer"
    if how == "another's":
        envoy.contexts = [context_of("0f", "spiffe://other/x")]
    async with compared(envoy, clock) as (served, _):
        await clock.advance(SETTLES_S * 2)
        assert served.describe()["matches"] is None
        assert served.trouble is None


async def test_a_certificate_from_another_process_is_reported_and_not_compared() -> None:
    envoy, clock = Envoy(), ManualClock()
    envoy.contexts = [context_of("0f")]
    async with compared(envoy, clock, foreign=True) as (served, _):
        await clock.advance(SETTLES_S * 2)
        assert (served.describe()["serial"], served.describe()["matches"]) == ("f", None)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"cert_chain": "text"},
        {"cert_chain": ["text", 1, None]},
        {"cert_chain": [{"serial_number": "xyz", "subject_alt_names": [{"uri": ID}]}]},
        {"cert_chain": [{"serial_number": "01", "subject_alt_names": ID}]},
        {"cert_chain": [{"subject_alt_names": [{"uri": ID}]}]},
    ],
)
def test_answers_of_another_shape_are_passed_over(answer: Mapping[str, JSON]) -> None:
    assert list(served_by([answer], ID)) == []


def with_mutual_tls() -> listener_pb2.Listener:
    """A listener that serves the workload certificate, which it has over SDS."""
    source = {
        "api_config_source": {
            "api_type": "GRPC",
            "transport_api_version": "V3",
            "grpc_services": [{"envoy_grpc": {"cluster_name": "sds-grpc"}}],
            "set_node_on_first_message_only": True,
        },
        "resource_api_version": "V3",
    }
    context = {
        "@type": "type.googleapis.com/"
        "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": {
            "tls_certificate_sds_secret_configs": [{"name": "default", "sds_config": source}]
        },
    }
    tls_listener = listener("web")
    json_format.ParseDict(
        {"name": "tls", "typed_config": context}, tls_listener.filter_chains[0].transport_socket
    )
    return tls_listener


async def serial_shown_to_a_peer() -> int:
    """What a client of the listener is shown."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(own_address(), LISTENER_PORT, ssl=context)
    try:
        peer = writer.get_extra_info("ssl_object")
        return x509.load_der_x509_certificate(peer.getpeercert(binary_form=True)).serial_number
    finally:
        writer.close()


async def until_compared(agent: RunningAgent, serial: int) -> Mapping[str, object]:
    status: Mapping[str, Mapping[str, object]] = {}

    async def compared_now() -> bool:
        nonlocal status
        status = await agent.status()
        return status["envoy_certificate"].get("serial") == f"{serial:x}"

    await until(compared_now, what="the comparison", seen=lambda: status.get("envoy_certificate"))
    return status["envoy_certificate"]


async def test_a_real_envoy_serves_each_renewed_certificate(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with running_agent(socket_dir, envoy_binary) as agent:
        await agent.plane.give_all(with_mutual_tls())
        await agent.until_ready_says(200, "")
        first = await serial_shown_to_a_peer()
        assert (await until_compared(agent, first))["matches"] is True
        await agent.renew()

        async def renewed() -> bool:
            return await serial_shown_to_a_peer() != first

        await until(renewed, what="the new certificate at the listener")
        second = await serial_shown_to_a_peer()
        compared = await until_compared(agent, second)
        assert compared["matches"] is True
        assert json.dumps(compared), "it is JSON"
        _, metrics = await agent.ask("/metrics")
        assert "mesh_agent_envoy_certificate_matches 1" in metrics


async def test_the_envoy_that_takes_over_in_a_hot_restart_is_the_one_that_is_compared(
    socket_dir: Path, envoy_binary: Path
) -> None:
    override = socket_dir / "override.json"
    override.write_text('{"node": {"cluster": "before"}}')
    async with running_agent(
        socket_dir,
        envoy_binary,
        proxy={"drainDuration": "1s", "parentShutdownDuration": "2s"},
        ISTIO_BOOTSTRAP_OVERRIDE=str(override),
    ) as agent:
        await agent.plane.give_all(with_mutual_tls())
        await agent.until_ready_says(200, "")
        first = await serial_shown_to_a_peer()
        before = await until_compared(agent, first)
        override.with_suffix(".new").write_text('{"node": {"cluster": "after"}}')
        override.with_suffix(".new").rename(override)
        # The agent may have seen the change by itself.
        assert (await agent.ask("/restart", "POST"))[0] == 200
        assert (await agent.status())["envoy"]["epoch"] == 1
        await agent.renew()

        async def renewed() -> bool:
            return await serial_shown_to_a_peer() != first

        await until(renewed, what="the new certificate at the listener")
        after = await until_compared(agent, await serial_shown_to_a_peer())
        assert after["matches"] is True
        assert after["pid"] != before["pid"]
        assert (await agent.ask("/healthz/ready")) == (200, "")
