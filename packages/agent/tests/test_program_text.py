"""Letting go of program text: the process gets smaller, and goes on as if nothing had happened."""

import json
import subprocess
import sys

from mesh_agent._program_text import unchanged_text

PROGRAM = """
import json, re, ssl, cryptography.x509, grpc
from mesh_agent._program_text import release

def resident_kb():
    return int(re.search(r"RssFile:\\s*(\\d+)", open("/proc/self/status").read())[1])

before = resident_kb()
release()
after = resident_kb()
works = ssl.create_default_context() is not None and json.loads("[1]") == [1]
print(json.dumps([before, after, works]))
"""


def test_a_process_is_smaller_without_its_start_and_goes_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    before, after, works = json.loads(done.stdout)
    assert works
    assert after < before / 2


def mapping(place: str, permissions: str, name: str, *, anonymous_kb: int) -> str:
    return (
        f"{place} {permissions} 00000000 fe:00 1234 {name}\n"
        "Size:                 16 kB\n"
        "Rss:                  16 kB\n"
        f"Anonymous:            {anonymous_kb} kB\n"
        "VmFlags: rd ex mr mw me\n"
    )


def test_only_text_as_it_is_in_its_file_is_let_go() -> None:
    text = "/usr/lib/libx.so.1 with spaces"
    smaps = (
        mapping("1000-5000", "r-xp", text, anonymous_kb=0)
        + mapping("5000-9000", "r-xp", text, anonymous_kb=4)
        + mapping("9000-d000", "rw-p", text, anonymous_kb=0)
        + mapping("d000-f000", "r-xp", "[vdso]", anonymous_kb=0)
        + mapping("7f0000000000-7f0000001000", "r-xp", text, anonymous_kb=0)
    )
    assert list(unchanged_text(smaps)) == [(0x1000, 0x4000), (0x7F0000000000, 0x1000)]
