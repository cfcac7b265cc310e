"""Pods as Istio's injection writes them, of 1.11 and of today: their agents start unchanged.

Command lines and variables are those of the pods; only addresses are this test's, because all run
on one machine. The control plane is a real one.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mesh_e2e import Target, Unanswered, send
from mesh_e2e._agents import own_address, running_agent
from mesh_e2e._machine import alive, children_of, last_words
from mesh_e2e._troubles import Plane, Workload, plane, workload
from mesh_testkit import PATIENCE_S, until

Record = Callable[[str, object], None]

WORDS_1_11 = (
    "proxy sidecar --domain shop.svc.cluster.local --serviceCluster web.shop "
    "--proxyLogLevel=warning --proxyComponentLogLevel=misc:error --log_output_level=default:info "
    "--concurrency 2"
)
WORDS_TODAY = (
    "proxy sidecar --domain shop.svc.cluster.local --proxyLogLevel=warning "
    "--proxyComponentLogLevel=misc:error --log_output_level=default:info"
)
ONLY_1_11 = {"JWT_POLICY": "third-party-jwt"}
ONLY_TODAY = {
    "ISTIO_CPU_LIMIT": "2",
    "GOMEMLIMIT": "1073741824",
    "ISTIO_META_NODE_NAME": "node-1",
}
# Where this machine stands in for a pod's network namespace, image and DNS.
OF_THE_TEST = (
    "PATH",
    "PYTHONPATH",
    "ENVOY_PATH",
    "MESH_AGENT_BIND_ADDRESS",
    "ISTIOD_SAN",
    "ISTIO_META_OUTBOUND_BIND_ADDRESS",
)

LATER = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: later, namespace: shop}
spec:
  hosts: [later.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 18081, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1}]
"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with plane(tmp_path_factory.mktemp("plane"), own_address(70)) as running:
        yield running


def injected(own: Workload, there: Plane, address: str) -> dict[str, str]:
    """The variables of an injected sidecar, but for those of one release."""
    return {
        **{name: own.environment[name] for name in OF_THE_TEST if name in own.environment},
        "PILOT_CERT_PROVIDER": "istiod",
        "CA_ADDR": f"{there.address}:15012",
        "POD_NAME": "web-5f7d8c9b4-x2x7k",
        "POD_NAMESPACE": "shop",
        "INSTANCE_IP": address,
        "SERVICE_ACCOUNT": "web",
        "HOST_IP": "10.0.0.9",
        "PROXY_CONFIG": json.dumps({"discoveryAddress": f"{there.address}:15012"}) + "\n",
        "ISTIO_META_POD_PORTS": '[\n    {"containerPort":8080,"protocol":"TCP"}\n]',
        "ISTIO_META_APP_CONTAINERS": "web",
        "ISTIO_META_CLUSTER_ID": "Kubernetes",
        "ISTIO_META_WORKLOAD_NAME": "web",
        "ISTIO_META_OWNER": "kubernetes://apis/apps/v1/namespaces/shop/deployments/web",
        "ISTIO_META_MESH_ID": "cluster.local",
        "TRUST_DOMAIN": "cluster.local",
        "ISTIO_KUBE_APP_PROBERS": json.dumps(
            {
                "/app-health/web/readyz": {
                    "httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                }
            }
        ),
        "ISTIO_PROMETHEUS_ANNOTATIONS": '{"scrape":"true","path":"","port":"8080"}',
        "CLOUD_PLATFORM": "none",
    }


async def started(
    own: Workload, environment: Mapping[str, str], words: Sequence[str]
) -> asyncio.subprocess.Process:
    with (own.directory / "agent.log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mesh_agent", *words),
            env=dict(environment),
            cwd=own.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


class Release(NamedTuple):
    """What a release's injection writes that the other's does not; a number for its address."""

    number: int
    words: str
    variables: Mapping[str, str]


RELEASES = pytest.mark.parametrize(
    "release",
    [Release(71, WORDS_1_11, ONLY_1_11), Release(72, WORDS_TODAY, ONLY_TODAY)],
    ids=["1.11", "today"],
)


@asynccontextmanager
async def pod(
    own: Workload, environment: Mapping[str, str], words: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the pod's agent, which must end with 0 when it is asked to."""
    log = own.directory / "agent.log"
    agent = await started(own, environment, words.split())
    try:
        yield agent
        agent.terminate()
        async with asyncio.timeout(PATIENCE_S):
            assert await agent.wait() == 0
        # What the injection of each release sets is honoured, or of no consequence.
        lines = [line for line in log.read_text().splitlines() if "a setting has no effect" in line]
        assert all("\tinfo\t" in line for line in lines), lines
        assert "\terror\t" not in log.read_text()
    except BaseException as error:
        error.add_note(last_words([log]))
        raise
    finally:
        if agent.returncode is None:
            agent.kill()
        await agent.wait()


@RELEASES
async def test_an_injected_pod_becomes_ready_and_ends_well(
    tmp_path: Path, there: Plane, record: Record, release: Release
) -> None:
    address = own_address(release.number)
    own = workload(there, tmp_path / "pod", address)
    environment = {
        **injected(own, there, address),
        **release.variables,
        "ISTIO_META_INTERCEPTION_MODE": "NONE",
    }
    began = time.monotonic()
    said: list[tuple[int, bytes]] = []

    async def is_ready() -> bool:
        assert agent.returncode is None, "the agent has ended"
        with suppress(OSError, Unanswered):
            # As the kubelet asks: of Envoy, which asks the agent.
            said.append(await send(Target(host=address, port=15021, url="/healthz/ready")))
        return bool(said) and said[-1][0] == 200

    async with pod(own, environment, release.words) as agent:
        await until(is_ready, what="the pod to be ready", seen=lambda: said[-1:])
        record("ready after", f"{time.monotonic() - began:.1f} s")
        assert await send(Target(host=address, port=15020, url="/healthz/ready")) == (200, b"")
        # The container is not there: a probe that is answered for it fails, and is no 404.
        probe = Target(host=address, port=15020, url="/app-health/web/readyz")
        assert (await send(probe))[0] == 500


@RELEASES
async def test_a_pod_whose_traffic_is_redirected_has_the_listeners_that_it_is_led_to(
    tmp_path: Path, there: Plane, release: Release
) -> None:
    address = own_address(release.number + 2)
    own = workload(there, tmp_path / "pod", address)
    redirected = {"ISTIO_META_INTERCEPTION_MODE": "REDIRECT"}
    environment = {**injected(own, there, address), **release.variables, **redirected}
    said: list[tuple[int, bytes]] = []

    async def is_ready() -> bool:
        assert agent.returncode is None, "the agent has ended"
        with suppress(OSError, Unanswered):
            said.append(await send(Target(host=address, port=15020, url="/healthz/ready")))
        return bool(said) and said[-1][0] == 200

    async with pod(own, environment, release.words) as agent:
        await until(is_ready, what="the pod to be ready", seen=lambda: said[-1:])
        _, listeners = await send(Target(host=address, port=15000, url="/listeners"))
        assert b"virtualOutbound::0.0.0.0:15001" in listeners
        assert b"virtualInbound::0.0.0.0:15006" in listeners


async def test_mesh_discovery_takes_the_report_of_an_application_that_is_not_healthy(
    tmp_path: Path, there: Plane
) -> None:
    address = own_address(79)
    own = workload(there, tmp_path / "pod", address)
    proxy_config = {
        "discoveryAddress": f"{there.address}:15012",
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 1},
    }
    environment = {**own.environment, "PROXY_CONFIG": json.dumps(proxy_config)}
    async with running_agent(own.directory, environment) as agent:
        status: Mapping[str, Any] = {}

        async def is_reported() -> bool:
            nonlocal status
            with suppress(OSError, Unanswered):
                status = await agent.status()
            return (status.get("health_check") or {}).get("healthy") is False

        await until(is_reported, what="the check that fails", seen=lambda: status.get("ready"))
        # Configuration goes on, on the stream that has the report.
        (there.directory / "config/later.yaml").write_text(LATER)

        async def has_listener() -> bool:
            target = Target(host=address, port=15000, url="/listeners")
            return b"18081" in (await send(target))[1]

        await until(has_listener, what="the listener of a service that was added")
        assert status["xds"]["connected"]
        assert not any(each["nack"] for each in status["xds"]["types"].values())


@pytest.mark.parametrize("status", [0, 3])
async def test_a_job_ends_with_its_agent_and_envoy(
    tmp_path: Path, there: Plane, record: Record, status: int
) -> None:
    address = own_address(75 + status)
    own = workload(there, tmp_path / "job", address)
    ended, going_on = own.directory / "ended", own.directory / "go-on"
    application = (
        "import os, pathlib, time\n"
        f"while not os.path.exists({str(going_on)!r}): time.sleep(0.02)\n"
        f"pathlib.Path({str(ended)!r}).write_text(str(time.monotonic()))\n"
        f"os._exit({status})"
    )
    words = ["proxy", "sidecar", "--", sys.executable, "-c", application]
    log = own.directory / "agent.log"
    agent = await started(own, {**own.environment, "CLOUD_PLATFORM": "none"}, words)
    try:
        await until(lambda: "application started" in log.read_text(), what="the application")
        children = children_of(agent.pid)
        assert len(children) == 2, "Envoy and the application"
        going_on.touch()
        async with asyncio.timeout(PATIENCE_S):
            assert await agent.wait() == status
        record("gone after", f"{time.monotonic() - float(ended.read_text()):.2f} s")
        assert not any(map(alive, children))
    except BaseException as error:
        error.add_note(last_words([log]))
        raise
    finally:
        if agent.returncode is None:
            agent.kill()
        await agent.wait()
