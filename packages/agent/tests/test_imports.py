"""What the agent's process does not load: it runs beside every workload, for months."""

import json
import subprocess
import sys

import mesh_agent

RARELY_USED = {
    "bz2",
    "certclient.tls._grpc_credentials",
    "certclient.tls._contexts",
    "certclient.authorities._workload_api",
    "email.parser",
    "encodings.idna",
    "envoy",
    "google.protobuf",
    "http.client",
    "importlib.metadata",
    "lzma",
    "mesh_agent.dns._name_table_updates",
    "mesh_dnsproxy",
    "mesh_protos.nds_pb2",
    "prometheus_client",
    "shutil",
    "tempfile",
    "typer",
    "wasm_modules",
    "xds_adapter",
    "xds_proxy.translation._delta_over_sotw",
    "xds_proxy.translation._sotw_over_delta",
    "xds_server.sources._snapshot_store",
    "yaml",
}


def test_a_configuration_in_json_does_not_load_yamls_library() -> None:
    program = (
        "import json, sys; import mesh_agent._process\n"
        "from istio_settings import merge_layers, mesh_layer, parse_layer\n"
        "text = json.dumps({'discoveryAddress': 'a:1', 'drainDuration': '1s'})\n"
        "merge_layers([mesh_layer('mesh', ''), parse_layer('PROXY_CONFIG', text)])\n"
        "print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert {"yaml", "difflib", "mesh_configfile.shapes"}.isdisjoint(json.loads(done.stdout))


def test_the_agents_process_does_not_load_what_it_rarely_uses() -> None:
    program = (
        "import json, sys; import mesh_agent._process, mesh_agent._agent, mesh_agent._proxyless\n"
        "print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert RARELY_USED.isdisjoint(json.loads(done.stdout))


def test_every_public_name_is_where_it_is_said_to_be() -> None:
    assert all(hasattr(mesh_agent, name) for name in mesh_agent.__all__)
    assert mesh_agent.__all__ == [name for name in mesh_agent.__all__ if name in vars(mesh_agent)]
    assert not hasattr(mesh_agent, "nothing_of_ours")
