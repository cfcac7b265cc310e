"""The README's example, run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_example_prints_what_the_readme_says() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    printed = re.findall(r"```text\n(.*?)```", README, re.DOTALL)[1]
    command = [sys.executable, "-W", "error", "-c", example]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == printed
