"""Edits of the mesh file while `mesh-local up` runs: only what was edited starts, stops or both."""

import asyncio
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from mesh_e2e import ECHO, Target, alive, constant_load, last_words, requests_open_at, send
from mesh_testkit import until

pytestmark = pytest.mark.slow

PROXY_PORT = 15002
STATUS_PORT = 15020
STARTED = re.compile(r'process started.*child="([^"]+)".*pid=(\d+)')

BACKEND = f"{{name: backend, ports: [{{port: 8080}}], command: [{sys.executable}, {ECHO}]}}"
CALLER = "{name: caller}"
RULE = (
    "{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: backend}, "
    "spec: {hosts: [backend], http: [{directResponse: {status: 418}}]}}"
)


def cart(more: str = "") -> str:
    ports = "ports: [{port: 8080}]"
    return f"{{name: cart, {ports}, command: [{sys.executable}, {ECHO}]{more}}}"


class Edited:
    """A mesh that runs, and its file."""

    def __init__(self, file: Path, state: Path, process: asyncio.subprocess.Process) -> None:
        self.file = file
        self.process = process
        self.state = state

    def save(self, *workloads: str, more: str = "") -> None:
        """Save the file as editors do: beside it, then over it."""
        new = self.file.with_name(".mesh.yaml.new")
        new.write_text(text_of(*workloads, more=more))
        new.replace(self.file)

    @property
    def log(self) -> str:
        return (self.state / "logs/mesh-local.log").read_text()

    def tells(self, sentence: str) -> bool:
        return sentence in self.log

    def pids(self, child: str) -> list[int]:
        """Return the pids that a process has had, oldest first."""
        return [int(pid) for name, pid in STARTED.findall(self.log) if name == child]

    def address(self, replica: str) -> str:
        entry = yaml.safe_load((self.state / f"config/workloads/{replica}.yaml").read_text())
        return str(entry["spec"]["address"])

    def in_service(self) -> frozenset[str]:
        """Return the replicas that others send requests."""
        files = [*(self.state / "config/workloads").glob("*.yaml")]
        return frozenset(each.stem for each in files if "out-of-service" not in each.read_text())

    def target(self, url: str, *, caller: str = "caller") -> Target:
        """Return where a workload's requests go: its own Envoy."""
        outbound = self.address(caller).removesuffix(".1") + ".3"
        authority = url.removeprefix("http://").partition("/")[0]
        return Target(host=outbound, port=PROXY_PORT, url=url, authority=authority)

    async def agent_status(self, replica: str) -> Mapping[str, Any]:
        """Return what a replica's agent says of itself."""
        where = Target(host=self.address(replica), port=STATUS_PORT, url="/debug/status")
        status, body = await send(where)
        assert status == 200
        found: Mapping[str, Any] = json.loads(body)
        return found

    async def until_in_service(self, *replicas: str) -> None:
        await self.until(lambda: self.in_service() == frozenset(replicas), f"{replicas}")

    async def until_gone(self, replica: str) -> None:
        """Wait until nothing is left of a replica but its logs."""
        files = (
            self.state / f"config/workloads/{replica}.yaml",
            self.state / "workloads" / replica,
        )
        await self.until(lambda: not any(each.exists() for each in files), f"{replica}'s end")
        assert not any(map(alive, (*self.pids(replica), *self.pids(f"{replica} agent"))))

    async def until_answered_by(self, replica: str, url: str) -> None:
        async def is_so() -> bool:
            status, body = await send(self.target(url))
            return status == 200 and json.loads(body)["served-by"] == replica

        await self.until(is_so, f"an answer of {replica}")

    async def until(self, holds: Callable[[], object], what: str) -> None:
        logs = [*(self.state / "logs").glob("*.log")]
        await until(holds, what=what, seen=lambda: (self.in_service(), last_words(logs)))


def text_of(*workloads: str, more: str = "") -> str:
    return "workloads:\n" + "".join(f"  - {each}\n" for each in workloads) + more


@asynccontextmanager
async def edited(directory: Path, *workloads: str, more: str = "") -> AsyncIterator[Edited]:
    """Run `mesh-local up` and stop it, which leaves nothing."""
    file, state = directory / "mesh.yaml", directory / "state"
    file.write_text(text_of(*workloads, more=more))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mesh_local", "up", str(file), "--state-dir", str(state)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    mesh = Edited(file, state, process)
    try:
        yield mesh
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    started = [int(pid) for _, pid in STARTED.findall(mesh.log)]
    assert not any(map(alive, started))


async def until_ready(mesh: Edited, *workloads: str) -> None:
    """Wait until requests of the caller arrive at each."""
    await until((mesh.state / "logs/mesh-local.log").exists, what="the mesh's log")
    for each in workloads:
        await mesh.until((mesh.state / f"config/workloads/{each}.yaml").exists, f"{each}'s file")

        async def answers(name: str = each) -> bool:
            try:
                return (await send(mesh.target(f"http://{name}:8080/")))[0] == 200
            except (OSError, EOFError):
                return False

        await mesh.until(answers, f"an answer of {each}")


async def test_edits_of_others_cost_an_untouched_workload_no_request(tmp_path: Path) -> None:
    async with edited(tmp_path, BACKEND, CALLER) as mesh:
        await until_ready(mesh, "backend")
        async with constant_load(mesh.target("http://backend:8080/"), rate_per_s=100) as load:
            await load.until_answered(50)
            mesh.save(BACKEND, CALLER, cart())
            await mesh.until_in_service("backend", "caller", "cart")
            await mesh.until_answered_by("cart", "http://cart:8080/")
            mesh.save(BACKEND, CALLER, cart(", env: {COLOUR: green}"))
            await mesh.until(lambda: len(mesh.pids("cart")) == 2, "another program of cart")
            await mesh.until_in_service("backend", "caller", "cart")
            assert len(mesh.pids("cart agent")) == 1, "its agent stays"
            environment = Path(f"/proc/{mesh.pids('cart')[-1]}/environ").read_bytes()
            assert b"COLOUR=green" in environment.split(b"\0")
            mesh.save(cart(", serviceAccount: other"), BACKEND, CALLER)
            await mesh.until(lambda: len(mesh.pids("cart agent")) == 2, "another agent of cart")
            await mesh.until_in_service("backend", "caller", "cart")
            mesh.save(BACKEND, CALLER)
            await mesh.until_gone("cart")
            await load.until_answered(50)
        assert load.report.failures == []
        started = Counter(name for name, _ in STARTED.findall(mesh.log))
        assert started == {
            "control-plane": 1,
            "backend": 1,
            "backend agent": 1,
            "caller agent": 1,
            "cart": 3,
            "cart agent": 2,
        }


async def test_replicas_come_go_and_start_again_without_a_lost_request(tmp_path: Path) -> None:
    async with edited(tmp_path, cart(), CALLER) as mesh:
        await until_ready(mesh, "cart")
        async with constant_load(mesh.target("http://cart:8080/"), rate_per_s=100) as load:
            await load.until_served_by("cart")
            mesh.save(cart(", replicas: 3"), CALLER)
            await mesh.until_in_service("cart-1", "cart-2", "cart-3", "caller")
            await load.until_served_by("cart-3")
            for variables in ("env: {COLOUR: green}", "agentEnv: {PKCS8_KEY: 'true'}"):
                before = {each: mesh.pids(f"cart-{each}") for each in "123"}
                agents = {each: mesh.pids(f"cart-{each} agent") for each in "123"}
                mesh.save(cart(f", replicas: 3, {variables}"), CALLER)

                def all_again(
                    before: dict[str, list[int]] = before, agents: dict[str, list[int]] = agents
                ) -> bool:
                    return all(
                        mesh.pids(f"cart-{each}") != before[each]
                        or mesh.pids(f"cart-{each} agent") != agents[each]
                        for each in "123"
                    )

                await mesh.until(all_again, "each replica to be started again")
                await mesh.until_in_service("cart-1", "cart-2", "cart-3", "caller")
            mesh.save(cart(", replicas: 2, agentEnv: {PKCS8_KEY: 'true'}"), CALLER)
            await mesh.until_in_service("cart-1", "cart-2", "caller")
            await load.until_answered(50)
        assert load.report.failures == []


async def test_requests_under_way_are_finished_before_their_workload_stops(tmp_path: Path) -> None:
    async with edited(tmp_path, cart(), CALLER) as mesh:
        await until_ready(mesh, "cart")
        direct = Target(host=mesh.address("cart").removesuffix(".1") + ".2", port=8080)
        for workloads in ((cart(", env: {COLOUR: green}"), CALLER), (CALLER,)):
            held = asyncio.create_task(send(mesh.target("http://cart:8080/held")))
            await mesh.until(lambda: under_way(mesh, "cart"), "the request to be under way")
            program = mesh.pids("cart")[-1]
            mesh.save(*workloads)
            await mesh.until_in_service("caller")
            assert not held.done()
            assert alive(program)
            status, _ = await send(replace(direct, url="/release"))
            assert status == 200
            status, body = await held
            assert (status, json.loads(body)["served-by"]) == (200, "cart")
            await mesh.until(partial(has_ended, program), "the program's end")
            if len(workloads) > 1:
                await until_ready(mesh, "cart")
                await mesh.until_in_service("caller", "cart")
        await mesh.until_gone("cart")


def has_ended(pid: int) -> bool:
    return not alive(pid)


async def under_way(mesh: Edited, replica: str) -> bool:
    return await requests_open_at(mesh.address(replica), "inbound|") > 0


async def test_the_last_content_of_the_file_counts_however_it_is_saved(tmp_path: Path) -> None:
    colours = [f"colour-{number}" for number in range(12)]
    async with edited(tmp_path, cart(), CALLER) as mesh:
        await until_ready(mesh, "cart")

        def has(colour: str) -> Callable[[], bool]:
            def shown() -> bool:
                with suppress(OSError):
                    return (
                        f"COLOUR={colour}\0".encode()
                        in Path(f"/proc/{mesh.pids('cart')[-1]}/environ").read_bytes()
                    )
                return False

            return shown

        def text(colour: str) -> str:
            return text_of(cart(f", env: {{COLOUR: {colour}}}"), CALLER)

        for colour in colours[:10]:  # a millisecond apart, also while one before is carried out
            mesh.save(cart(f", env: {{COLOUR: {colour}}}"), CALLER)
            await asyncio.sleep(0.001)
        await mesh.until(has(colours[9]), "the last of ten edits")

        with mesh.file.open("w") as opened:  # in place, and in two halves
            opened.write(text(colours[10])[:40])
            opened.flush()
            await asyncio.sleep(0.05)
            opened.write(text(colours[10])[40:])
        await mesh.until(has(colours[10]), "an edit in place")

        program = mesh.pids("cart")[-1]
        mesh.file.unlink()
        await mesh.until(lambda: "can't be read, and the mesh runs on" in mesh.log, "word of it")
        assert alive(program)
        mesh.file.write_text(text(colours[11]))
        await mesh.until(has(colours[11]), "a file that is there again")
        await mesh.until(lambda: "mesh file is in effect" in mesh.log, "word of that, too")
        assert len(mesh.pids("cart agent")) == 1


WRONG = (
    ((BACKEND,), "config: [}\n", ":3: not valid YAML"),
    ((CALLER, "{nam: cart}"), "", ":3: workloads[1].nam: unknown field"),
    ((CALLER, "{name: cart, command: [no-such-one]}"), "", ":3: workloads[1].command: there is no"),
    (
        (CALLER,),
        f"config:\n  - {RULE.replace('[backend]', '3')}\n",
        ":4: config[0].spec.hosts: expected a list",
    ),
)


async def test_a_wrong_file_changes_nothing_and_is_reported_with_its_line(tmp_path: Path) -> None:
    async with edited(tmp_path, BACKEND, CALLER) as mesh:
        await until_ready(mesh, "backend")
        for workloads, more, sentence in WRONG:
            mesh.save(*workloads, more=more)
            await mesh.until(partial(mesh.tells, f"mesh.yaml{sentence}"), sentence)
        mesh.save(BACKEND, CALLER, cart(), more="mesh: {trustDomain: example.org}\n")
        message = ":5: mesh.trustDomain: can't be changed while the mesh runs"
        await mesh.until(lambda: message in mesh.log, "word of what stays")
        await mesh.until_answered_by("cart", "http://cart:8080/")
        for each in ("backend", "backend agent", "caller agent", "cart agent"):
            assert len(mesh.pids(each)) == 1


async def test_edits_during_the_start_and_during_the_stop(tmp_path: Path) -> None:
    async with edited(tmp_path, BACKEND, CALLER) as mesh:
        await until((mesh.state / "logs/mesh-local.log").exists, what="the mesh's log")
        await mesh.until(lambda: mesh.pids("control-plane"), "the control plane's start")
        mesh.save(BACKEND, CALLER, cart())
        await mesh.until(lambda: mesh.pids("cart agent"), "the start of one that was added")
        mesh.save(cart(), CALLER)  # while all three start
        await mesh.until_gone("backend")
        await until_ready(mesh, "cart")
        mesh.process.send_signal(signal.SIGTERM)
        mesh.save(BACKEND, CALLER)
        await mesh.process.wait()
        assert not mesh.pids("backend") or not alive(mesh.pids("backend")[-1])


async def test_rules_change_without_a_process_and_a_gateway_follows_the_one_before(
    tmp_path: Path, free_port: Callable[..., int]
) -> None:
    (tmp_path / "rules").mkdir()
    rule = yaml.safe_dump(yaml.safe_load(RULE.replace("418", "429")))
    (tmp_path / "rules" / "rule.yaml").write_text(rule)
    port = free_port()

    def gateway(name: str) -> str:
        return f"{{name: {name}, gateway: {{ports: [{port}]}}}}"

    async with edited(tmp_path, BACKEND, CALLER, gateway("inner")) as mesh:
        await until_ready(mesh, "backend")

        async def until_status(wanted: int) -> None:
            async def is_so() -> bool:
                return (await send(mesh.target("http://backend:8080/")))[0] == wanted

            await mesh.until(is_so, f"status {wanted}")

        mesh.save(BACKEND, CALLER, gateway("outer"), more=f"config: [{RULE}]\n")
        await until_status(418)
        await mesh.until_gone("inner")
        mesh.save(BACKEND, CALLER, gateway("outer"), more="configDir: rules\n")
        await until_status(429)
        mesh.save(BACKEND, CALLER, gateway("outer"))
        await until_status(200)
        await mesh.until_in_service("backend", "caller", "outer")
        started = Counter(name for name, _ in STARTED.findall(mesh.log))
        assert started == {
            "control-plane": 1,
            "backend": 1,
            **{f"{name} agent": 1 for name in ("backend", "caller", "inner", "outer")},
        }
        lines = mesh.log.splitlines()
        stopped, followed = (
            next(number for number, line in enumerate(lines) if all(map(line.__contains__, words)))
            for words in (
                ("process stopped", "inner agent"),
                ("process started", "outer agent"),
            )
        )
        assert stopped < followed


def proxy_config(name: str, spec: str) -> str:
    return (
        "{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, "
        f"metadata: {{name: {name}, namespace: default}}, spec: {{{spec}}}}}\n"
    )


async def test_agents_are_started_as_proxy_configs_want_it_and_tell_what_came_later(
    tmp_path: Path,
) -> None:
    (tmp_path / "own").mkdir()
    variables = "environmentVariables: {REGION: north}"
    all_of = proxy_config("all", f"concurrency: 2, {variables}")
    more = f"configDir: own\nconfig:\n  - {all_of}"

    async def started_with(mesh: Edited) -> tuple[str, bool]:
        envoy = Path(f"/proc/{(await mesh.agent_status('caller'))['envoy']['pid']}")
        words = (envoy / "cmdline").read_text().split("\0")
        variables = (envoy / "environ").read_text().split("\0")
        return words[words.index("--concurrency") + 1], "REGION=north" in variables

    async with edited(tmp_path, CALLER, more="configDir: own\n") as mesh:
        await until((mesh.state / "logs/mesh-local.log").exists, what="the mesh's log")
        await mesh.until((mesh.state / "config/workloads/caller.yaml").exists, "caller's file")
        await mesh.until(lambda: mesh.pids("caller agent"), "a first agent")

        mesh.save(CALLER, more=more)
        await mesh.until(lambda: len(mesh.pids("caller agent")) == 2, "another agent")
        await mesh.until_in_service("caller")
        assert await started_with(mesh) == ("2", True)
        assert (await mesh.agent_status("caller"))["proxy_configs"] == {}

        own = tmp_path / "own" / "own.yaml"
        own.write_text(
            proxy_config("own", "selector: {matchLabels: {app: caller}}, concurrency: 3")
        )

        async def is_told() -> bool:
            told = (await mesh.agent_status("caller"))["proxy_configs"]
            return bool(told == {"concurrency": 3, "started_with_concurrency": 2})

        await mesh.until(is_told, "what is wanted otherwise")
        assert len(mesh.pids("caller agent")) == 2
        assert await started_with(mesh) == ("2", True)
        told = (mesh.state / "logs/caller.agent.log").read_text()
        assert told.count("that the agent was not started with") == 1

        mesh.save(CALLER, more=f"{more}mesh: {{name: other}}\n")
        await mesh.until(lambda: len(mesh.pids("caller agent")) == 3, "a third agent")
        await mesh.until_in_service("caller")
        assert await started_with(mesh) == ("3", True)
        assert (await mesh.agent_status("caller"))["proxy_configs"] == {}
