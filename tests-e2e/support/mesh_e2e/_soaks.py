"""The command line of a soak: how long certificates live, how long it runs, under which load."""

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Soak(Protocol[T_co]):
    """Runs a mesh in a directory for a while; returns what happened."""

    async def __call__(
        self, directory: Path, *, lifetime_s: int, seconds: float, rate: float
    ) -> T_co: ...


def soaked(
    soak: Soak[T], description: str | None, *, lifetime_s: int, seconds: float, rate: float
) -> tuple[T, argparse.Namespace]:
    """Run it as the command line says, else by these figures; also returns the options."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--lifetime", type=int, default=lifetime_s, help="seconds a certificate lives"
    )
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--rate", type=float, default=rate, help="requests a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        run = soak(
            Path(directory),
            lifetime_s=options.lifetime,
            seconds=options.seconds,
            rate=options.rate,
        )
        return asyncio.run(run), options
