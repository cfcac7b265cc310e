"""Which agent of a machine the doctor examines: real agents, in a network of their own."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NEW_NETWORK = 0x40000000
# Waits for the agents' status ports, runs the doctor in an empty directory, and stops the agents.
SCRIPT = """
import json, os, signal, socket, subprocess, sys, time
from pathlib import Path

directory, envoy, *addresses = sys.argv[1:]
doctor_environment = json.loads(os.environ.pop("DOCTOR"))
agents = []
for name, address in enumerate(addresses):
    home = Path(directory, f"web-{name}")
    for file in ("var/run/secrets/tokens/istio-token", "var/run/secrets/istio/root-cert.pem"):
        (home / file).parent.mkdir(parents=True)
        (home / file).write_text("x")
    environment = {
        **os.environ, "POD_NAME": home.name, "INSTANCE_IP": address, "ENVOY_PATH": envoy,
        "MESH_AGENT_BIND_ADDRESS": address, "DISABLE_ENVOY": "true", "OUTPUT_CERTS": "certs",
        "PROXY_CONFIG": '{"discoveryAddress": "127.0.0.1:9", "statusPort": 15998}',
    }
    command = [sys.executable, "-m", "mesh_agent", "proxy"]
    agents.append(subprocess.Popen(command, cwd=home, env=environment, stdout=2))
try:
    for address in addresses:
        deadline = time.monotonic() + 120
        while True:
            try:
                with socket.create_connection((address, 15998), timeout=1) as asked:
                    asked.sendall(b"GET /debug/config HTTP/1.0\\r\\n\\r\\n")
                    if b" 200 " in asked.recv(100):
                        break
            except OSError:
                pass
            assert time.monotonic() < deadline
            time.sleep(0.05)
    shell = Path(directory, "shell")
    shell.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "mesh_agent_cli", "doctor", "--json"],
        cwd=shell, env={**os.environ, **doctor_environment}, capture_output=True, text=True,
    )
finally:
    for agent in agents:
        agent.send_signal(signal.SIGTERM)
    for agent in agents:
        agent.wait()
print(json.dumps([done.returncode, done.stdout, done.stderr]))
"""


def can_make_namespaces() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(NEW_NETWORK) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not can_make_namespaces() or shutil.which("ip") is None,
    reason="only root can make a network namespace, and `ip` brings its loopback up",
)


def examined(directory: Path, *addresses: str, **environ: str) -> tuple[int, str, str]:
    """Run agents at these addresses, and beside them the doctor: status, output, errors."""
    done = subprocess.run(
        [
            *("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"),
            *(sys.executable, "-c", SCRIPT, str(directory), "/bin/true", *addresses),
        ],
        env={**os.environ, "DOCTOR": json.dumps(environ)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    status, output, errors = json.loads(done.stdout)
    return status, output, errors


def test_the_only_agent_of_a_machine_is_found_wherever_it_listens(tmp_path: Path) -> None:
    _, output, errors = examined(tmp_path, "127.0.0.2")
    first = json.loads(output)["findings"][0]
    assert errors == ""
    assert first["said"] == (
        f"the agent at 127.0.0.2:15998, as it was started in {tmp_path / 'web-0'}"
    )


def test_one_of_several_agents_has_to_be_named(tmp_path: Path) -> None:
    status, output, errors = examined(tmp_path, "127.0.0.2", "127.0.0.3")
    assert (status, output) == (2, "")
    assert errors == (
        "mesh-agent: 2 agents run here, name one with --address and --port: "
        "web-0 at 127.0.0.2:15998, web-1 at 127.0.0.3:15998\n"
    )


def test_a_shell_that_is_set_up_for_another_workload_examines_that_one(tmp_path: Path) -> None:
    settings = {"MESH_AGENT_BIND_ADDRESS": "127.0.0.2", "POD_NAME": "cart-1"}
    settings["PROXY_CONFIG"] = '{"statusPort": 15998}'
    _, output, _ = examined(tmp_path, "127.0.0.2", **settings)
    findings = json.loads(output)["findings"]
    assert findings[0]["said"] == (
        f"the environment of this shell, in {tmp_path / 'shell'} "
        "(the agent at 127.0.0.2:15998 is another workload's)"
    )
    assert "port-taken" in {each["cause"] for each in findings}


# Serves a page as an agent would have it, which names a program and a token of others.
STRANGER = """
import encodings.idna, http.server, json, os, sys
os.setuid(65534)
directory, program = sys.argv[1:]
page = {
    "process": {"directory": directory, "user": 0},
    "flags": {"--envoy-path": {"value": program, "from": "flag"}},
    "variables": {"ENVOY_SKIP_DEPRECATED_LOGS": {"value": "true", "from": "env"}},
    "results": {"envoy": {"value": program, "from": "flag"}},
}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def test_what_another_users_program_names_is_not_run_and_its_token_not_read(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "agent"
    token = directory / "var/run/secrets/tokens/istio-token"
    token.parent.mkdir(parents=True)
    token.write_text("not a token")
    ran = tmp_path / "ran"
    program = tmp_path / "envoy"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    stranger = subprocess.Popen(
        [sys.executable, "-c", STRANGER, str(directory), str(program)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with stranger:
        try:
            assert stranger.stdout is not None
            port = stranger.stdout.readline().strip()
            done = subprocess.run(
                [sys.executable, "-m", "mesh_agent_cli", "doctor", "--port", port, "--json"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
        finally:
            stranger.kill()
    found = {each["check"]: each for each in json.loads(done.stdout)["findings"]}
    assert str(directory) in found["examined"]["said"]
    for check in ("token", "Envoy"):
        assert found[check]["status"] == "skipped"
        assert "user 0 is not the agent's, 65534" in found[check]["said"]
    assert not ran.exists()
