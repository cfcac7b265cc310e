"""`mesh-local up --capture`: unmodified programs, and nothing of their networks is left."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesh_e2e import alive, children_of, last_words
from mesh_testkit import until

MISSING = [each for each in ("ip", "nft", "curl", "unshare") if shutil.which(each) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="the machines of these tests need root"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
]

FRONTEND = "spiffe://cluster.local/ns/default/sa/frontend"
ECHO = """\
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Echo(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(self.headers).encode())

ThreadingHTTPServer(("", 80), Echo).serve_forever()
"""
MESH = """\
workloads:
  - {name: backend, ports: [{port: 80}], command: [python3, backend.py]}
  - {name: frontend, command: [sh, -c, setsid sleep infinity & exec sleep infinity]}
"""
ADDED = "  - {name: files, ports: [{port: 80}], command: [python3, -m, http.server, '80']}\n"
Ask = Callable[..., Awaitable[tuple[int, str]]]
Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


class Machine:
    """A network and mounts of its own: what other tests make and remove is not seen in it."""

    def __init__(self, process: int) -> None:
        self.process = process
        self._enter = ("nsenter", "--target", str(process), "--net", "--mount")

    def within(self, folder: Path) -> tuple[str, ...]:
        """Return the words that run a command in a folder on this machine."""
        return (*self._enter, f"--wdns={folder}")

    def state(self) -> str:
        """Return the links, addresses, routes and rules of its network, and its mounts."""
        commands = ("ip -o link", "ip -o addr", "ip route show table all", "nft list ruleset")
        shown = [
            subprocess.check_output([*self._enter, *each.split()], text=True)
            for each in (*commands, "cat /proc/self/mounts")
        ]
        # Others' mounts go from here, too, when the files below them are removed: networks that
        # are held by name, and what tests beside this one have mounted in their folders.
        return re.sub(r"(?m)^\S+ (/run/netns/|\S*/pytest-).*\n", "", "\n".join(shown))


@pytest.fixture
def machine() -> Iterator[Machine]:
    script = "ip link set lo up && echo ready && exec sleep infinity"
    private = ("unshare", "--net", "--mount", "--propagation", "private")
    with subprocess.Popen(
        [*private, "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield Machine(process.pid)
        finally:
            process.kill()


class Up:
    """`mesh-local up --capture` in a folder, as the machine's user types it."""

    def __init__(self, process: asyncio.subprocess.Process, start: Start, ask: Ask) -> None:
        self.process = process
        self._start = start
        self.ask = ask

    def inside(self) -> int:
        """Return the process in the namespaces."""
        (found,) = [each for each in children_of(self.process.pid) if alive(each)]
        return found

    async def begin(self, *command: str) -> asyncio.subprocess.Process:
        """Start a command in the frontend's network."""
        return await self._start("exec", "frontend", "--", *command)

    async def call(self, *command: str) -> str:
        """Return what a command says in the frontend's network."""
        status, said = await self.ask("exec", "frontend", "--", *command)
        assert status == 0, said
        return said


@asynccontextmanager
async def up(folder: Path, within: Sequence[str] = ()) -> AsyncIterator[Up]:
    """Run the mesh of a folder until the block ends; all of it is ready when the block begins.

    within: the words before its commands.
    """
    (folder / "backend.py").write_text(ECHO)
    (folder / "mesh.yaml").write_text(MESH)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    async def start(*words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *within,
            *("mesh-local", *words),
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def ask(*words: str) -> tuple[int, str]:
        process = await start(*words)
        said, _ = await process.communicate()
        return process.returncode or 0, said.decode()

    process = await start("up", "--capture")
    try:
        seen: list[object] = []

        async def is_ready() -> bool:
            assert process.returncode is None
            seen[:] = await ask("status")
            return seen[0] == 0

        await until(is_ready, what="the mesh is ready", seen=lambda: seen)
        yield Up(process, start, ask)
    except BaseException as error:
        error.add_note(last_words((folder / ".mesh-local").rglob("*.log")))
        raise
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()
        # A mesh that was killed removes none of its sockets.
        shutil.rmtree(folder / ".mesh-local", ignore_errors=True)


def namespaces_of(process: int, machine: Machine | None = None) -> set[str]:
    """Return the namespaces of a process and of all below it that its machine is not in."""
    found = set[str]()
    for each in (process, *_below(process)):
        for kind in ("net", "mnt", "user"):
            found.add(str(Path(f"/proc/{each}/ns/{kind}").readlink()))
    return found - _of("self" if machine is None else str(machine.process))


def _below(process: int) -> list[int]:
    return [found for each in children_of(process) for found in (each, *_below(each))]


def _of(process: str) -> set[str]:
    try:
        return {str(each.readlink()) for each in Path(f"/proc/{process}/ns").iterdir()}
    except OSError:  # it has ended
        return set()


def inhabited() -> set[str]:
    """Return the namespaces that any process of the machine is in."""
    return set[str]().union(*(_of(each.name) for each in Path("/proc").glob("[0-9]*")))


async def nothing_is_left(namespaces: set[str], processes: Sequence[int]) -> None:
    async def is_so() -> bool:
        return not namespaces & inhabited() and not any(map(alive, processes))

    await until(
        is_so,
        what="no process and no namespace of the mesh is left",
        seen=lambda: (namespaces & inhabited(), [each for each in processes if alive(each)]),
    )


async def test_an_unmodified_program_is_in_the_mesh(tmp_path: Path, machine: Machine) -> None:
    before = machine.state()
    async with up(tmp_path, machine.within(tmp_path)) as mesh:
        said = await mesh.call("curl", "-sS", "http://backend/")
        assert f"URI={FRONTEND}" in said
        assert machine.state() == before
        # Envoy's admin interface is for its own network.
        assert "curl" in await mesh.call(
            "sh", "-c", "curl -sSf http://10.77.1.1:15000/ 2>&1 || true"
        )
        assert '"LIVE"' in await mesh.call("curl", "-sSf", "http://127.0.0.1:15000/server_info")
        # STRICT: who is in no network of a workload has no certificate.
        inside = ("nsenter", "--target", str(mesh.inside()), "--net", "--mount")
        process = await asyncio.create_subprocess_exec(
            *inside, "curl", "-sS", "--max-time", "5", "http://10.77.1.1/"
        )
        assert await process.wait() != 0
        assert await mesh.ask("wait") == (0, "2 proxies have all that is saved\n")
        status, said = await mesh.ask("request", "frontend", "http://backend/")
        assert status == 0
        assert f"URI={FRONTEND}" in said
    assert machine.state() == before


async def test_an_edit_makes_and_removes_networks(tmp_path: Path) -> None:
    async with up(tmp_path) as mesh:
        (tmp_path / "mesh.yaml").write_text(MESH + ADDED)

        async def is_served() -> bool:
            return (await mesh.ask("exec", "frontend", "--", "curl", "-sSf", "http://files/"))[
                0
            ] == 0

        await until(is_served, what="files answers", seen=lambda: "")
        with_files = namespaces_of(mesh.process.pid)
        (tmp_path / "mesh.yaml").write_text(MESH)

        async def is_gone() -> bool:
            left = with_files & inhabited()
            networks = {each for each in with_files if each.startswith("net")}
            return len(networks) == 4 and len(networks & left) == 3

        await until(is_gone, what="the network of files is gone", seen=lambda: with_files)
        (tmp_path / "mesh.yaml").write_text(MESH + "  - {name: edge, gateway: {ports: [8080]}}\n")

        async def is_refused() -> bool:
            return "edge listens on this machine's own" in (await mesh.ask("status"))[1]

        await until(is_refused, what="a gateway is refused", seen=lambda: "")
        assert f"URI={FRONTEND}" in await mesh.call("curl", "-sS", "http://backend/")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("which", ["outside", "inside"])
async def test_nothing_is_left_of_a_mesh_that_has_ended(
    tmp_path: Path, machine: Machine, number: signal.Signals, which: str
) -> None:
    before = machine.state()
    async with up(tmp_path, machine.within(tmp_path)) as mesh:
        processes = [mesh.process.pid, *_below(mesh.process.pid)]
        namespaces = namespaces_of(mesh.process.pid, machine)
        assert len([each for each in namespaces if each.startswith("net")]) == 3
        os.kill(mesh.process.pid if which == "outside" else mesh.inside(), number)
        await mesh.process.wait()
        await nothing_is_left(namespaces, processes)
    killed = -number if which == "outside" else 128 + number
    assert mesh.process.returncode == (killed if number is signal.SIGKILL else 0)
    assert machine.state() == before


async def test_a_program_calls_its_own_service_by_name(tmp_path: Path) -> None:
    async with up(tmp_path) as mesh:
        status, said = await mesh.ask("exec", "backend", "--", "curl", "-sS", "http://backend/")
        assert status == 0, said
        assert "URI=spiffe://cluster.local/ns/default/sa/backend" in said


QUERIES = """\
import sys
import dns.message, dns.query
query = dns.message.make_query("backend.default.svc.cluster.local", "A")
ask = {"udp": dns.query.udp, "tcp": dns.query.tcp}[sys.argv[1]]
(answer,) = ask(query, "192.0.2.53", timeout=10).answer
print(answer[0])
"""


async def test_queries_to_any_server_are_answered_by_the_agent(tmp_path: Path) -> None:
    (tmp_path / "queries.py").write_text(QUERIES)
    async with up(tmp_path) as mesh:
        answered = "istio_agent_dns_requests_total"

        async def count() -> float:
            text = await mesh.call("curl", "-sSf", "http://127.0.0.1:15020/metrics")
            (line,) = [each for each in text.splitlines() if each.startswith(f"{answered} ")]
            return float(line.split()[1])

        before = await count()
        for number, way in enumerate(("udp", "tcp"), start=1):
            said = await mesh.call(sys.executable, "queries.py", way)
            assert said.startswith("240.240."), f"{way}: {said}"
            assert await count() == before + number


WAITING = 20
CALLS = """\
import socket, sys
calls = [socket.create_connection((sys.argv[1], 80), 60) for _ in range(int(sys.argv[2]))]
for call in calls:
    call.sendall(b"GET / HTTP/1.1\\r\\nHost: backend\\r\\nConnection: close\\r\\n\\r\\n")
print("connected", flush=True)
for call in calls:
    print(call.makefile().read())
"""


@pytest.mark.parametrize("killed", ["frontend", "backend"])
async def test_connections_wait_for_an_envoy_that_was_killed_and_none_is_refused(
    tmp_path: Path, killed: str
) -> None:
    """At port 15001 of the frontend's network, or at 15006 of the backend's.

    Its agent is stopped meanwhile, so that there is no Envoy for as long as connections are made.
    """
    (tmp_path / "calls.py").write_text(CALLS)
    async with up(tmp_path) as mesh:
        assert f"URI={FRONTEND}" in await mesh.call("curl", "-sS", "http://backend/")
        address = (await mesh.call("getent", "ahostsv4", "backend")).split()[0]
        agent, envoy = envoys(mesh)[killed]

        async def are_held() -> bool:
            text = (await mesh.ask("exec", killed, "--", *METRICS))[1]
            held = [each for each in text.splitlines() if each.startswith(HELD)]
            return bool(held) and float(held[0].split()[1]) >= 2

        await until(are_held, what="the sockets are held", seen=lambda: "")
        os.kill(agent, signal.SIGSTOP)
        try:
            os.kill(envoy, signal.SIGKILL)
            await until(lambda: is_dead(envoy), what="Envoy has ended", seen=lambda: envoy)
            calls = await mesh.begin(sys.executable, "calls.py", address, str(WAITING))
            assert calls.stdout is not None
            said = (await calls.stdout.readline()).decode()
        finally:
            os.kill(agent, signal.SIGCONT)
        said += (await calls.communicate())[0].decode()
        assert calls.returncode == 0, said
        assert said.startswith("connected\n")
        assert said.count("200 OK") == said.count(f"URI={FRONTEND}") == WAITING, said
        assert envoys(mesh)[killed][1] != envoy
        shown = await mesh.call("curl", "-sSf", "http://127.0.0.1:15000/clusters")
        backend = "outbound|80||backend.default.svc.cluster.local::10.77.1.1:80::"
        assert f"{backend}cx_connect_fail::0\n" in shown


def envoys(mesh: Up) -> dict[str, tuple[int, int]]:
    """Return the agent of each workload and its Envoy."""
    return {
        Path(f"/proc/{agent}/cwd").readlink().name: (agent, each)
        for agent in _below(mesh.process.pid)
        for each in children_of(agent)
        if Path(f"/proc/{each}/comm").read_text() == "envoy\n"
    }


METRICS = ("curl", "-sSf", "http://127.0.0.1:15020/metrics")
HELD = "mesh_agent_envoy_retained_sockets "


async def is_dead(process: int) -> bool:
    return not alive(process)


RESOLVER = {"table": {"elsewhere.example.org": {"ips": ["192.0.2.7"]}}}


async def test_other_names_are_asked_of_the_machine_s_own_resolver(tmp_path: Path) -> None:
    """A resolver like systemd-resolved's, at an address that only the machine itself can reach."""
    (tmp_path / "names.json").write_text(json.dumps(RESOLVER))
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.53\n")
    resolver = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mesh_dnsproxy", "--table", str(tmp_path / "names.json")),
        *("--listen", "127.0.0.53:53"),
    )
    mounting = f"mount --bind {tmp_path}/resolv.conf /etc/resolv.conf"
    try:
        within = ("unshare", "--mount", "sh", "-c", f'{mounting} && exec "$@"', "sh")
        async with up(tmp_path, within) as mesh:
            said = await mesh.call("getent", "ahostsv4", "elsewhere.example.org")
            assert said.startswith("192.0.2.7 ")
            assert (await mesh.call("getent", "ahostsv4", "backend")).startswith("240.240.")
    finally:
        resolver.terminate()
        await resolver.wait()


ANOTHER_USER = """\
set -e
cd {place}
cp /etc/passwd /etc/group .
echo 'other:x:4711:4711::{place}:/bin/sh' >> passwd
echo 'other:x:4711:' >> group
echo '{ids}' > subids
for each in passwd group; do mount --bind $each /etc/$each; done
for each in subuid subgid; do mount --bind subids /etc/$each; done
mount --bind readable /root
cd mesh
exec setpriv --reuid 4711 --regid 4711 --clear-groups --inh-caps=-all "$@"
"""


@pytest.fixture
def another_user(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """Return the words that run a command as another user, who has these subordinate ids.

    That user is there in a namespace of mounts alone, and may read root's Python there.
    """
    home = Path("/root")
    for each in ("subuid", "subgid"):
        if not Path("/etc", each).exists():
            pytest.skip(f"/etc/{each} is not here, in whose place another is mounted")

    def words(ids: str) -> tuple[str, ...]:
        place = tmp_path / "machine"
        for each in (place, place / "readable", place / "mesh"):
            each.mkdir(exist_ok=True)
        os.chown(place / "mesh", 4711, 4711)
        for each in tmp_path.parents:
            if (
                each.stat().st_uid == 0
                and each != Path("/")
                and each.name.startswith(("pytest-", "popen-"))
            ):
                each.chmod(0o755)
        tmp_path.chmod(0o755)
        script = ANOTHER_USER.format(place=place, ids=ids)
        prefixes = (Path(sys.base_prefix), Path(sys.prefix))
        links = {
            home / each.relative_to(home).parts[0] for each in prefixes if home in each.parents
        }
        binding = "".join(
            f"mkdir -p {place}/readable/{each.name} && mount --bind {each} "
            f"{place}/readable/{each.name}\n"
            for each in links
        )
        script = script.replace(
            "mount --bind readable /root", f"{binding}mount --rbind readable /root"
        )
        return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")

    return words


@pytest.mark.skipif(shutil.which("newuidmap") is None, reason="needs newuidmap (uidmap)")
async def test_a_user_with_subordinate_ids_needs_no_root(
    tmp_path: Path, machine: Machine, another_user: Callable[[str], tuple[str, ...]]
) -> None:
    within = (*machine.within(tmp_path), *another_user("other:300000:65536"))
    folder = tmp_path / "machine" / "mesh"
    before = machine.state()
    async with up(folder, within) as mesh:
        assert f"URI={FRONTEND}" in await mesh.call("curl", "-sS", "http://backend/")
        assert (await mesh.ask("wait"))[0] == 0
        processes = [mesh.process.pid, *_below(mesh.process.pid)]
        namespaces = namespaces_of(mesh.process.pid, machine)
        mesh.process.kill()
        await mesh.process.wait()
        await nothing_is_left(namespaces, processes)
    assert machine.state() == before


async def test_a_user_without_subordinate_ids_reads_what_is_missing(
    tmp_path: Path, another_user: Callable[[str], tuple[str, ...]]
) -> None:
    within = another_user("somebody:100000:65536")
    folder = tmp_path / "machine" / "mesh"
    (folder / "mesh.yaml").write_text("workloads: [{name: frontend}]\n")
    process = await asyncio.create_subprocess_exec(
        *(*within, "mesh-local", "up", "--capture"),
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 1
    assert said.decode() == (
        "mesh-local: --capture needs root or 65536 subordinate ids, which /etc/subuid does not "
        "give to other: have root run usermod --add-subuids 165536-231071 "
        "--add-subgids 165536-231071 other\n"
    )
