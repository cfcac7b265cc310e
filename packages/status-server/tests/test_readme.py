"""The README's example, run as it stands but for the ports."""

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path

from mesh_testkit import until
from scrape_peers import Peer, Scraped, Serve, answer, get

README = (Path(__file__).parent.parent / "README.md").read_text()


async def test_the_example_serves_metrics_and_probes(
    serve: Serve, free_port: Callable[[], int]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    application = Peer(answer(b"app_up 1\n"))
    envoy = await serve(Peer(answer(b"envoy_up 1\n")))
    port = free_port()
    example = example.replace("15020", str(port)).replace("15000", str(envoy))
    example = example.replace("8080", str(await serve(application)))
    process = await asyncio.create_subprocess_exec(sys.executable, "-W", "error", "-c", example)
    found: list[Scraped] = []

    async def answers() -> bool:
        assert process.returncode is None
        try:
            found.append(await get(port, "/stats/prometheus"))
        except OSError:
            return False
        return True

    try:
        await until(answers, what="the example to listen")
        assert {"my_program_up 1", "envoy_up 1", "app_up 1"} <= set(found[-1].lines)
        assert (await get(port, "/healthz/ready")).body == b"ready\n"
        assert (await get(port, "/app-health/web/livez")).body == b"app_up 1\n"
        assert application.requests[-1].startswith("GET /healthz HTTP/1.1")
    finally:
        process.kill()
        await process.wait()


async def test_little_is_imported_before_it_is_needed() -> None:
    look = (
        "import sys, mesh_status_server; "
        "print({'mesh_probes', 'zlib', 'mesh_status_server.metrics._lines'} & sys.modules.keys())"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{look}"),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert output == b"set()\n"
