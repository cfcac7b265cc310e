"""The README's example, run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_example_prints_what_the_readme_says() -> None:
    example = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    (printed,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, check=True
    )
    assert done.stdout == printed


def test_what_fetches_is_imported_when_it_is_needed() -> None:
    look = "import sys, wasm_modules; print(*sorted(sys.modules))"
    run = [sys.executable, "-c", look]
    found = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert "wasm_modules" in found
    assert not {"h11", "wasm_modules._modules", "tarfile"} & set(found)
