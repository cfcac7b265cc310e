"""`mesh-discovery check --against` an Envoy that runs."""

import json
from pathlib import Path

from planes import run_command
from scenarios import Scene


async def test_an_envoy_is_compared_with_a_directory(scene: Scene, tmp_path: Path) -> None:
    reviews = await scene.reviews()
    directory, admin = str(scene.plane.directory), reviews.client.envoy.admin

    code, output = await run_command(tmp_path, "check", directory, f"--against={admin}")
    assert (code, output) == (
        0,
        f"2 objects in 2 files are good\n{admin} has what it would be given\n",
    )

    file = tmp_path / "dump.json"
    file.write_text(json.dumps(await reviews.client.dump()))
    service = scene.plane.directory / "service_s.yaml"
    service.write_text(service.read_text().replace("number: 80", "number: 81"))
    code, output = await run_command(tmp_path, "check", directory, f"--against={file}", "--json")

    host = "s.b.svc.cluster.local"
    bind = reviews.client.outbound_address
    assert code == 1
    assert {
        (each["type"], each["name"], each["difference"]) for each in json.loads(output)["different"]
    } == {
        ("cluster", f"outbound|80||{host}", "extra"),
        ("cluster", f"outbound|81||{host}", "missing"),
        ("endpoint", f"outbound|81||{host}", "missing"),
        ("listener", f"{bind}_80", "extra"),
        ("listener", f"{bind}_81", "missing"),
        ("route", "80", "extra"),
        ("route", "81", "missing"),
    }


async def test_a_source_that_is_none_is_reported(scene: Scene, tmp_path: Path) -> None:
    directory = str(scene.plane.directory)
    file = tmp_path / "dump.json"
    sources = {
        "127.0.0.1:1": "can't be read: Connection refused",
        "nowhere": "there is no file nowhere, and it is no HOST:PORT",
        str(file): "there is no list of configs in it",
        scene.plane.grpc: "does not speak HTTP",
    }
    file.write_text("{}")

    for source, message in sources.items():
        code, output = await run_command(tmp_path, "check", directory, f"--against={source}")
        assert (code, message in output) == (1, True), output
