"""What an agent that is ready has not loaded: each would be memory beside every workload."""

import json
from http import HTTPStatus
from pathlib import Path

from mesh_e2e._agents import own_address, running_agent
from mesh_e2e._load import Target, Unanswered, send
from mesh_e2e._troubles import plane, workload
from mesh_testkit import until

NOT_LOADED = {
    "aiohttp": "only tokens are exchanged with it",
    "bz2": "comes with archives",
    "certclient.authorities._workload_api": "this workload's authority is the control plane",
    "certclient.tls._contexts": "for programs that make TLS connections themselves",
    "dns": "is for the names of a workload, which are not answered here",
    "email.parser": "comes with http.client and importlib.metadata",
    "encodings.idna": "is for names of other scripts",
    "envoy": "configuration is relayed as bytes",
    "google.protobuf": "messages are read and written by mesh_protowire",
    "http.client": "Envoy is asked with h11, as the status port is served",
    "lzma": "comes with archives",
    "mesh_dnsproxy": "the workload's names are not answered here",
    "mesh_token_exchange": "no tokens are exchanged here",
    "multiprocessing": "the agent has no processes but Envoy",
    "prometheus_client": "metrics are written by the agent itself",
    "shutil": "brings the archive formats",
    "tempfile": "brings shutil",
    "typer": "is for the command line",
    "wasm_modules": "no module is named by the configuration",
    "xds_proxy.translation._delta_over_sotw": "the control plane speaks Envoy's dialect",
    "xds_proxy.translation._sotw_over_delta": "the control plane speaks Envoy's dialect",
    "yaml": "the proxy's configuration is JSON",
    "zipfile": "comes with archives and importlib.metadata",
}
_TELL_AT_EXIT = """\
import atexit, json, pathlib, sys
atexit.register(lambda: pathlib.Path({path!r}).write_text(json.dumps(list(sys.modules))))
"""


async def test_an_agent_that_was_ready_has_not_loaded_what_it_does_not_use(tmp_path: Path) -> None:
    hook, modules = tmp_path / "hook", tmp_path / "modules.json"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(_TELL_AT_EXIT.format(path=str(modules)))
    address = own_address(60)
    target = Target(host=address, port=15020, url="/healthz/ready")

    async def ready() -> bool:
        try:
            status, _ = await send(target)
        except (OSError, Unanswered):
            return False
        return status == HTTPStatus.OK

    with plane(tmp_path / "plane", own_address(61)) as there:
        beside = workload(there, tmp_path / "agent", address, ISTIO_META_DNS_CAPTURE="false")
        environment = {**beside.environment, "CLOUD_PLATFORM": "none", "PYTHONPATH": str(hook)}
        async with running_agent(beside.directory, environment):
            await until(ready, what="the agent to be ready")
    loaded = set(json.loads(modules.read_text()))
    assert "mesh_agent._agent" in loaded
    assert {name: why for name, why in NOT_LOADED.items() if name in loaded} == {}
