"""A host name of several addresses, and one of none: each failure is one sentence."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ASK = """
import asyncio, sys
from mesh_identity import ExpectedName, why_unreachable
print(asyncio.run(why_unreachable(
    "localhost", int(sys.argv[1]), trusted=None, expected=ExpectedName("localhost"), timeout_s=30
)))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a hosts file of one's own takes root")
@pytest.mark.parametrize(
    ("hosts", "sentence"),
    [
        ("127.0.0.1 localhost\n127.0.0.2 localhost\n::1 localhost\n", "connection refused"),
        ("", "its host name cannot be resolved (Name or service not known)"),
    ],
    ids=["several", "none"],
)
def test_localhost_may_be_several_or_none(
    hosts: str, sentence: str, tmp_path: Path, free_port: Callable[..., int]
) -> None:
    file = tmp_path / "hosts"
    file.write_text(hosts)
    # By the file alone: what a name server says, and whether it does in time, is not ours.
    sources = tmp_path / "nsswitch.conf"
    sources.write_text("hosts: files\n")
    asked = (
        f'mount --bind "{file}" /etc/hosts && '
        f'mount --bind "{sources}" /etc/nsswitch.conf && exec "$@"'
    )

    process = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", asked, "sh"),
            *(sys.executable, "-c", ASK, str(free_port("127.0.0.1"))),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (process.returncode, process.stdout, process.stderr) == (0, f"{sentence}\n", "")
