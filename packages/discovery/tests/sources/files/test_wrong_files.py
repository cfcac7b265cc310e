"""A control plane whose files go wrong while it runs: what it serves, and how it is asked."""

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from documents import Documents
from planes import Plane, run_command

Start = Callable[..., Awaitable[Any]]

UNSUPPORTED = (
    "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: v}\n"
    "spec: {parentRefs: [{name: gw}], rules: [{sessionPersistence: {sessionName: s}}]}\n"
)
LACK = "rules.yaml:4: spec.rules[0].sessionPersistence: session persistence is not supported yet"


async def kinds(plane: Plane) -> list[str]:
    return [each["kind"] for each in (await plane.get("/debug/configz"))["objects"]]


async def test_a_right_file_is_applied_beside_a_wrong_one(
    config_dir: Path, start_plane: Start, eventually: Start, yaml: Documents
) -> None:
    (config_dir / "web.yaml").write_text(yaml.service("web", "127.0.0.1", 80, 8080))
    plane = await start_plane(config_dir)
    (config_dir / "rules.yaml").write_text(UNSUPPORTED)
    (config_dir / "policy.yaml").write_text(yaml.peer_authentication("STRICT"))

    await eventually(
        lambda: kinds(plane),
        wanted=["PeerAuthentication", "ServiceEntry"],
        what="the policy beside the wrong file",
    )
    assert 'config_loads_total{result="partly"}' in await plane.get("/metrics")


async def test_the_status_tells_a_wrong_file_until_it_is_right(
    config_dir: Path,
    tmp_path: Path,
    start_plane: Start,
    *,
    eventually: Start,
    yaml: Documents,
    replace: Callable[[Path, str], None],
) -> None:
    file = config_dir / "web.yaml"
    file.write_text(yaml.service("web", "127.0.0.1", 80, 8080))
    plane = await start_plane(config_dir)
    status = ("status", f"--monitoring-addr={plane.monitoring}")
    assert await run_command(tmp_path, *status) == (
        0,
        "0 proxies connected, everything is as configured\n",
    )

    replace(file, yaml.service("web", "127.0.0.1", 80, 8080).replace("STATIC", "STATICS"))

    async def wrong() -> Any:
        return (await plane.get("/debug/status"))["wrong_files"]

    (problem,) = await eventually(wrong, what="the wrong file")
    code, output = await run_command(tmp_path, *status)
    lines = output.splitlines()
    page = json.loads((await run_command(tmp_path, *status, "-o", "json"))[1])

    assert (problem["file"], problem["kept"]["objects"]) == (str(file), 1)
    assert problem["kept"]["read_at"] < problem["since"]
    assert problem["problems"][0]["line"] == 7
    assert problem["problems"][0]["field"] == "spec.resolution"
    assert page["wrong_files"] == [problem]
    assert code == 1
    assert re.fullmatch(
        rf"wrong for \d+ s: {re.escape(str(file))}; what was good \d+ s ago is served, 1 object",
        lines[0],
    )
    assert lines[1].startswith(f"  {file}:7: spec.resolution: expected one of NONE, STATIC")

    replace(file, yaml.service("web", "127.0.0.1", 80, 8080))

    async def well() -> bool:
        return not await wrong()

    await eventually(well, what="the right file")
    assert (await run_command(tmp_path, *status))[0] == 0


async def test_the_status_tells_what_is_not_reached(
    config_dir: Path, tmp_path: Path, start_plane: Start, yaml: Documents
) -> None:
    for name in ("a", "b"):
        text = yaml.service(name, "10.0.0.1", 5432, 5432, protocol="tcp")
        (config_dir / f"{name}.yaml").write_text(text)
    plane = await start_plane(config_dir)

    code, output = await run_command(tmp_path, "status", f"--monitoring-addr={plane.monitoring}")
    lines = output.splitlines()

    assert code == 1
    assert lines[0].startswith(
        f"not reached: {config_dir}/b.yaml:9: spec.ports[0]: port 5432 belongs to ServiceEntry "
        f"default/a ({config_dir}/a.yaml:1), which comes first"
    )
    assert "mesh_discovery_config_unreachable 1.0" in await plane.get("/metrics")
    assert (await run_command(tmp_path, "check", f"--config-dir={config_dir}"))[0] == 1


@pytest.mark.parametrize("by", ["flag", "environment"])
async def test_what_only_istio_has_is_let_pass_counted_and_shown(
    by: str, config_dir: Path, tmp_path: Path, start_plane: Start
) -> None:
    (config_dir / "rules.yaml").write_text(UNSUPPORTED)
    code, output = await run_command(tmp_path, "check", f"--config-dir={config_dir}")
    lines = output.splitlines()
    assert code == 1
    assert any(LACK in each for each in lines)

    flag = ["--allow-unsupported"] if by == "flag" else []
    env = {} if flag else {"MESH_DISCOVERY_ALLOW_UNSUPPORTED": "true"}
    code, output = await run_command(tmp_path, "check", f"--config-dir={config_dir}", *flag, **env)
    lines = output.splitlines()
    plane = await start_plane(config_dir, *flag, **env)
    _, output = await run_command(tmp_path, "status", f"--monitoring-addr={plane.monitoring}")
    shown = output.splitlines()

    sentence = f"{config_dir}/{LACK}"
    assert code == 0
    assert lines[0].startswith(f"note: {sentence}")
    assert shown[0].startswith(f"without effect: {sentence}")
    assert "mesh_discovery_config_unsupported 1.0" in await plane.get("/metrics")


@pytest.mark.parametrize(
    ("address", "exit_code", "sentence"),
    [
        ("127.0.0.1:{free}", 1, "nothing listens on 127.0.0.1:{free}: --monitoring-addr must be"),
        ("nowhere", 2, "--monitoring-addr: 'nowhere' is not host:port"),
        ("127.0.0.1:{other}", 1, "127.0.0.1:{other} answered with status 404"),
    ],
)
async def test_a_status_that_cannot_be_had_is_reported_in_a_sentence(
    address: str, exit_code: int, sentence: str, *, tmp_path: Path, free_port: Callable[..., int]
) -> None:
    runner = web.AppRunner(web.Application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        ports = {"free": free_port("127.0.0.1"), "other": runner.addresses[0][1]}
        code, output = await run_command(
            tmp_path, "status", f"--monitoring-addr={address.format(**ports)}"
        )
        lines = output.splitlines()
    finally:
        await runner.cleanup()

    assert code == exit_code
    assert lines[0].startswith(f"mesh-discovery: {sentence.format(**ports)}")
    assert len(lines) == 1


async def test_what_can_no_longer_be_reached_is_reported_while_it_is_so(
    config_dir: Path, start_plane: Start, eventually: Start, yaml: Documents
) -> None:
    text = yaml.service("a", "10.0.0.1", 5432, 5432, protocol="tcp")
    (config_dir / "a.yaml").write_text(text)
    plane = await start_plane(config_dir)

    async def unreachable() -> list[str]:
        return [each["file"] for each in (await plane.get("/debug/status"))["unreachable"]]

    assert await unreachable() == []
    second = config_dir / "b.yaml"
    second.write_text(yaml.service("b", "10.0.0.2", 5432, 5432, protocol="tcp"))
    await eventually(unreachable, wanted=[str(second)], what="the second service")
    second.unlink()
    await eventually(unreachable, wanted=[], what="the first alone")


UNUSABLE = {
    "a Secret": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: kubernetes.io/tls\n",
    "an EnvoyFilter": (
        "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: f}\n"
        "spec: {configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {a: b}}}]}\n"
    ),
}


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE)
async def test_an_unusable_object_stops_itself_and_not_the_start(
    text: str,
    config_dir: Path,
    tmp_path: Path,
    start_plane: Start,
    *,
    yaml: Documents,
) -> None:
    good = yaml.service("web", "127.0.0.1", 80, 8080)
    (config_dir / "all.yaml").write_text(f"{text}---\n{good}")
    (config_dir / "policy.yaml").write_text(yaml.peer_authentication("STRICT"))

    plane = await start_plane(config_dir)

    assert await kinds(plane) == ["PeerAuthentication", "ServiceEntry"]
    code, output = await run_command(tmp_path, "status", f"--monitoring-addr={plane.monitoring}")
    assert code == 1
    assert "all.yaml" in output
    code, output = await run_command(tmp_path, "check", str(config_dir))
    assert code == 1
    assert "all.yaml" in output


async def test_another_mistake_beside_it_stops_the_start(
    config_dir: Path, tmp_path: Path, yaml: Documents
) -> None:
    wrong = yaml.service("web", "127.0.0.1", 80, 8080).replace("80", "99999")
    (config_dir / "all.yaml").write_text(f"{UNUSABLE['a Secret']}---\n{wrong}")

    code, output = await run_command(
        tmp_path, "discovery", f"--config-dir={config_dir}", f"--ca-dir={tmp_path / 'ca'}"
    )

    assert code != 0
    assert "99999" in output
