"""The README's example, run as it stands but for the port."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_example_prints_what_the_readme_says(free_port: Callable[[], int]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    port = str(free_port())
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example.replace("8080", port)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == printed.replace("8080", port)


def test_no_protocol_is_imported_before_a_probe_needs_it() -> None:
    look = "import sys, mesh_probes; print(*sorted({'h11', 'h2', 'ssl'} & sys.modules.keys()))"
    run = [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{look}"]
    found = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert not {"h11", "h2"} & set(found)
