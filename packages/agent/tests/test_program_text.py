"""Letting go of program text: the process gets smaller, and goes on as if nothing had happened."""

import json
import subprocess
import sys

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
