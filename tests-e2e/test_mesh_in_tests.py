"""`mesh_local.running`: each call of a mesh in somebody's tests, with real Envoys."""

import asyncio
import json
import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path

import pytest

import mesh_local
from mesh_e2e import ECHO, alive
from mesh_e2e._programs import answer
from mesh_local import BlockingMesh, FaultError, MeshLocalError, Workload, running

SHOP = (
    Workload("backend", port=8080, program=answer),
    Workload("frontend", port=8080, program=answer, agent_env={"PKCS8_KEY": "true"}),
    Workload("store", port=9000, protocol="tcp"),
)
URL = "http://backend/x?y=z"
RULE = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: backend, namespace: default}
spec:
  hosts: [backend]
  http: [{route: [{destination: {host: backend}}], headers: {request: {set: {ruled: "yes"}}}}]
"""


@pytest.fixture(autouse=True)
def _test_leaves_nothing() -> None:
    """Tests replace processes of the module's mesh; what the module leaves is still checked."""


@pytest.fixture(scope="module")
def mesh() -> Iterator[BlockingMesh]:
    with running(SHOP) as started:
        yield started


def status(mesh: BlockingMesh, caller: str = "frontend") -> int:
    return mesh.get(caller, URL).status


def test_a_request_is_sent_as_a_workload(mesh: BlockingMesh) -> None:
    sent = mesh.request(
        "frontend", "POST", "http://backend.default:8080/a", headers={"one": "two"}, body="three"
    )
    answer = sent.json()
    assert (sent.status, answer["method"], answer["path"], answer["body"]) == (
        200,
        "POST",
        "/a",
        "three",
    )
    assert answer["headers"]["one"] == "two"
    assert answer["headers"]["x-forwarded-client-cert"].endswith(
        f"URI={mesh.spiffe_id('frontend')}"
    )
    assert mesh.get("frontend", URL).json()["path"] == "/x?y=z"


def test_a_test_reaches_a_program_directly(mesh: BlockingMesh) -> None:
    with urllib.request.urlopen(f"{mesh.url('backend')}/direct") as found:  # noqa: S310
        answer = json.load(found)
    assert (answer["by"], answer["path"]) == ("backend", "/direct")
    assert "x-forwarded-client-cert" not in answer["headers"]


def test_one_workload_s_agent_has_the_variables_given_to_it(mesh: BlockingMesh) -> None:
    found = {
        name: Path(f"/proc/{mesh.running.workload(name).agent.pid}/environ").read_bytes()
        for name in ("frontend", "backend")
    }
    assert b"PKCS8_KEY=true" in found["frontend"].split(b"\0")
    assert b"PKCS8_KEY" not in found["backend"]


def test_delay_and_abort_are_of_one_caller_and_add_up(mesh: BlockingMesh) -> None:
    with mesh.delay("frontend", "backend", 0.7):
        delayed = mesh.get("frontend", URL)
        assert delayed.status == 200
        # Envoy counts from the beginning of its event loop's turn: it may end milliseconds early.
        assert delayed.elapsed_s > 0.6
        with mesh.abort("frontend", "backend", 418):
            both = mesh.get("frontend", URL)
            assert (both.status, both.elapsed_s > 0.6) == (418, True)
            assert status(mesh, caller="backend") == 200
        assert status(mesh) == 200
        assert mesh.faults
    assert mesh.get("frontend", URL).elapsed_s < 0.7
    assert not mesh.faults


def test_faults_end_in_any_order(mesh: BlockingMesh) -> None:
    first = mesh.abort("frontend", "backend", 418)
    second = mesh.abort("frontend", "backend", 429)
    assert status(mesh) == 429
    first.end()
    assert status(mesh) == 429
    second.end()
    second.end()  # once more is no mistake
    assert status(mesh) == 200


def test_a_cut_refuses_new_connections_and_ends_those_that_are_open(mesh: BlockingMesh) -> None:
    instance = mesh.running.workload("frontend").instance
    stream = HTTPConnection(instance.addresses.outbound, 15002, timeout=60)
    stream.request("GET", "http://backend:8080/endless")
    response = stream.getresponse()
    assert response.read(5) == b"tick\n"
    with mesh.cut("frontend", "backend"):
        assert ends(response)
        refused = mesh.get("frontend", URL)
        assert (refused.status, "connection failure" in refused.text) == (503, True)
        assert status(mesh, caller="backend") == 200
        with pytest.raises(FaultError, match="frontend is cut off from backend already"):
            mesh.cut("frontend", "backend")
    stream.close()
    assert status(mesh) == 200


def ends(response: HTTPResponse) -> bool:
    """Whether an answer of a line every tenth of a second comes to an end."""
    try:
        return any(not response.read(5) for _ in range(300))
    except (HTTPException, OSError):
        return True


def test_documents_are_there_when_the_call_returns_and_beside_faults(mesh: BlockingMesh) -> None:
    with mesh.apply(RULE):
        assert mesh.get("frontend", URL).json()["headers"]["ruled"] == "yes"
        with mesh.abort("frontend", "backend", 418):
            assert status(mesh) == 418
            assert mesh.get("backend", URL).json()["headers"]["ruled"] == "yes"
        assert mesh.get("frontend", URL).json()["headers"]["ruled"] == "yes"
    assert "ruled" not in mesh.get("frontend", URL).json()["headers"]


def test_wrong_documents_are_reported_with_their_lines_and_taken_back(mesh: BlockingMesh) -> None:
    with pytest.raises(mesh_local.ConfigurationError) as caught:
        mesh.apply(RULE.replace("[backend]", "3"))
    assert str(caught.value) == "documents:5: spec.hosts: expected a list, found the number 3"
    with mesh.apply(RULE):  # the same object again: nothing is left of it
        pass


@pytest.mark.parametrize("part", ["backend", "backend.envoy", "backend.agent", "control-plane"])
def test_a_killed_part_is_back_at_the_end_of_the_block(mesh: BlockingMesh, part: str) -> None:
    with mesh.kill(part):
        pass
    assert status(mesh) == 200
    assert status(mesh, caller="backend") == 200


@pytest.mark.parametrize(
    ("part", "meanwhile"), [("backend", 503), ("backend.agent", 503), ("control-plane", 200)]
)
def test_a_stopped_part_stays_away_until_the_end_of_the_block(
    mesh: BlockingMesh, part: str, meanwhile: int
) -> None:
    with mesh.stop(part):
        assert status(mesh) == meanwhile
    assert status(mesh) == 200


def test_without_control_plane_a_rule_is_refused(mesh: BlockingMesh) -> None:
    with mesh.stop("control-plane"):
        with pytest.raises(FaultError, match="the control plane does not run"):
            mesh.cut("frontend", "backend")


def test_a_request_of_a_workload_without_envoy_for_the_moment_has_no_answer(
    mesh: BlockingMesh,
) -> None:
    with mesh.stop("frontend.agent"):
        with pytest.raises(mesh_local.NoAnswer, match=r"GET http://backend/x\S* as frontend: "):
            mesh.get("frontend", URL)


Ask = Callable[[BlockingMesh], object]


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda m: m.cut("fronted", "backend"), 'no workload "fronted"; did you mean "frontend"?'),
        (lambda m: m.delay("frontend", "elsewhere", 1), "there are backend, frontend, store"),
        (lambda m: m.abort("frontend", "store", 418), "store has no port of HTTP or gRPC"),
        (lambda m: m.abort("frontend", "backend", 99), "a status from 200 to 599, found 99"),
        (lambda m: m.delay("frontend", "backend", 0), "seconds above 0, found 0"),
        (lambda m: m.delay("frontend", "backend", "2"), "seconds above 0, found '2'"),
        (lambda m: m.abort("frontend", "backend", "503"), "from 200 to 599, found '503'"),
        (lambda m: m.kill("backend.proxy"), "write WORKLOAD, WORKLOAD.agent, WORKLOAD.envoy or"),
        (lambda m: m.kill("store"), "store has no program here: it has no command"),
        (lambda m: m.stop("backend.envoy"), "stop backend.agent, with which its Envoy ends"),
        (lambda m: m.get("frontend", "https://backend/"), "must begin with http://"),
        (lambda m: m.logs("backend.log"), 'there is no "backend.log"'),
    ],
)
def test_what_can_t_be_is_one_sentence(mesh: BlockingMesh, ask: Ask, sentence: str) -> None:
    with pytest.raises(FaultError) as caught:
        ask(mesh)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not mesh.faults


def test_logs_of_an_agent_and_its_envoy_are_distinguished(mesh: BlockingMesh) -> None:
    assert mesh.logs("backend").startswith("answering\n")
    components = {
        part: {line.split("\t")[2].split(" ")[0] for line in mesh.logs(part).splitlines()}
        for part in ("backend.agent", "backend.envoy")
    }
    assert components["backend.envoy"] <= {"envoy"}
    assert "mesh_agent._agent" in components["backend.agent"]
    assert "envoy" not in components["backend.agent"]
    assert "client connected" in mesh.logs("control-plane")


def test_a_context_is_a_workload_s_to_envoys_and_to_servers_of_the_test(mesh: BlockingMesh) -> None:
    own = mesh.ssl_context("frontend")
    inbound = mesh.running.workload("backend").instance.addresses.inbound
    with socket.create_connection((inbound, 8080)) as plain, own.wrap_socket(plain) as connection:
        assert identity(connection) == mesh.spiffe_id("backend")
    seen: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            accepted, _ = listening.accept()
            context = mesh.ssl_context("store", server=True)
            with context.wrap_socket(accepted, server_side=True) as connection:
                seen.append(identity(connection))
                connection.sendall(b"x")

        thread = threading.Thread(target=serve)
        thread.start()
        with socket.create_connection(listening.getsockname()) as plain:
            with own.wrap_socket(plain) as connection:
                assert identity(connection) == mesh.spiffe_id("store")
                assert connection.recv(1) == b"x"
        thread.join()
    assert seen == [mesh.spiffe_id("frontend")]


def identity(connection: ssl.SSLSocket) -> str:
    certificate = connection.getpeercert()
    assert certificate is not None
    return dict[str, str](certificate["subjectAltName"])["URI"]  # type: ignore[arg-type]


def test_faults_that_are_left_are_ended_and_named(mesh: BlockingMesh) -> None:
    kept = mesh.delay("backend", "backend", 0.1)
    before = mesh.faults
    mesh.abort("frontend", "backend", 418)
    mesh.kill("backend")
    assert mesh.end_faults(but=before) == ("abort frontend to backend",)
    assert status(mesh) == 200
    assert mesh.faults == before
    kept.end()


async def test_with_asyncio_the_block_may_be_left_by_another_task(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(
        "workloads:\n- name: b\n"
        f"- {{name: a, ports: [{{port: 8080}}], command: [python3, {ECHO}]}}\n"
    )
    entered = running(file, state_dir=tmp_path / "state")
    mesh = await asyncio.create_task(entered.__aenter__())
    assert (await mesh.get("b", "http://a/")).status == 200
    async with mesh.cut("b", "a") as fault:
        assert mesh.faults == (fault,)
        assert (await mesh.get("b", "http://a/")).status == 503
    fault = await mesh.abort("b", "a", 418)
    assert (await mesh.get("b", "http://a/")).status == 418
    await fault.end()
    assert (await mesh.get("b", "http://a/")).status == 200
    await asyncio.create_task(entered.__aexit__(None, None, None))
    assert not list((tmp_path / "state").rglob("XDS"))


def test_a_program_that_ends_at_once_is_reported_with_its_last_words() -> None:
    words = ["python3", "-c", "raise SystemExit('no database')"]
    with pytest.raises(mesh_local.NotReady, match=r"a ended \(exit code 1\): no database") as error:
        running([Workload("a", port=8080, program=words)]).__enter__()
    assert error.value.__notes__ == ["the last lines of a.log:\n  no database"]


def test_a_call_after_the_block_says_so(tmp_path: Path) -> None:
    with running([Workload("a")], state_dir=tmp_path / "state") as mesh:
        pids = [child.pid for child in mesh.running.children]
    with pytest.raises(MeshLocalError, match="the mesh has ended"):
        mesh.get("a", "http://a/")
    assert not [pid for pid in pids if pid is not None and alive(pid)]
