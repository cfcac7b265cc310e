"""The end-to-end tests: real processes, real Envoys, real certificates, this machine only."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from grpc.aio import init_grpc_aio  # type: ignore[attr-defined]  # the stubs do not know it

sys.path.insert(0, str(Path(__file__).parent / "support"))

# gRPC's asyncio side ends with the last of its objects, and waits for a thread of its own then. If
# that object is collected in a child between fork and exec, where there is no such thread, it waits
# for ever, and so does who runs the child. Held from here it never ends.
init_grpc_aio()

Record = Callable[[str, object], None]


@pytest.fixture
def record(record_property: Record, capsys: pytest.CaptureFixture[str]) -> Record:
    """Keep a figure: in the test's report, and on the terminal."""

    def keep(name: str, value: object) -> None:
        record_property(name, value)
        with capsys.disabled():
            sys.stdout.write(f"\n    {name}: {value}")

    return keep
