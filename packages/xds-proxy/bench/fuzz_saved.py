"""Throw damaged files at the reader of saved configuration: each is refused, or read rightly.

    python bench/fuzz_saved.py [--files 200000] [--seed N]

Two kinds of damage. Bytes that are changed, cut, doubled or put in, after which nothing but a
refusal is right. And contents that are made anew, with a digest that fits, so that what is behind
the digest is reached too: header, list and messages; they may be read or refused, and must not
raise anything else or take long. Prints how many there were, how long it took and what became of
each.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from mesh_protowire import bytes_field, string_field
from xds_proxy._config import SavedConfig
from xds_proxy.protocol._dialect import STATE_OF_THE_WORLD
from xds_proxy.protocol._resources import Resource, write_response
from xds_proxy.saved._file import Header, UnusableFile, decode, encode
from xds_proxy.saved._merging import Change
from xds_proxy.saved._store import LIST, Owner, Store

_PREFIX = "type.googleapis.com/envoy.config."
TYPES = tuple(
    _PREFIX + name for name in ("cluster.v3.Cluster", "listener.v3.Listener", "x.v3.Other")
)
OWNER = Owner({"node id": "a"}, ("istiod:15012",))
NOW = 1.8e9
_SLOWEST_S = 2.0


def response(type_url: str, count: int) -> bytes:
    resources = [
        Resource(
            f"{number}",
            "",
            string_field(1, type_url) + bytes_field(2, string_field(1, f"{number}") + b"\x12\0"),
        )
        for number in range(count)
    ]
    return write_response(
        STATE_OF_THE_WORLD, type_url=type_url, version="7", nonce="n", resources=resources
    )


def damaged(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 1 if place < len(data):
                data[place] = rng.randrange(256)
            case 2:
                del data[place:]
            case 3:
                data[place:place] = data[rng.randrange(len(data) + 1) :][: rng.randrange(200)]
            case _:
                data[place:place] = rng.randbytes(rng.randrange(9))
    return bytes(data)


def remade(content: bytes, rng: random.Random) -> bytes:
    """Return a file with another header or body and a digest that fits."""
    file = decode(content)
    body = damaged(file.body, rng) if rng.random() < 0.7 else file.body
    header: Header = file.header
    if rng.random() < 0.7:
        text = damaged(json.dumps(file.header).encode(), rng)
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        header = found if isinstance(found, dict) else {**file.header, "types": found}
    return b"".join(encode(header, [body]).parts)


def outcome(directory: Path, owner: Owner, expected: dict[str, int]) -> str:
    store = Store(SavedConfig(directory=directory, max_bytes=1 << 22))
    try:
        files = store.load(owner, now=NOW)
        if files is None:
            return "none"
        found = {name: len(store.resources(name) or {}) for name in files.types}
        return "as it was saved" if found == expected else "read, with a digest that fits"
    except UnusableFile as error:
        reason = str(error).partition(": ")[2].partition(":")[0]
        return f"refused: {re.sub('[0-9]+', 'N', reason)}"
    finally:
        store.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    options = parser.parse_args()
    rng = random.Random(options.seed)
    counts: Counter[str] = Counter()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as parent:
        directory = Path(parent) / "saved"
        store = Store(SavedConfig(directory=directory))
        expected = {name: number * 5 for number, name in enumerate(TYPES)}
        changes = {
            name: [Change(STATE_OF_THE_WORLD, response(name, count), True, None, frozenset())]
            for name, count in expected.items()
        }
        store.save(OWNER, changes, current_at=NOW)
        store.close()
        whole = {path: path.read_bytes() for path in sorted(directory.iterdir())}
        for number in range(options.files):
            path = rng.choice(list(whole))
            fits = rng.random() < 0.5 and path.name == LIST
            broken = remade(whole[path], rng) if fits else damaged(whole[path], rng)
            path.write_bytes(broken)
            started = time.monotonic()
            try:
                said = outcome(directory, OWNER, expected)
            except BaseException:
                sys.stderr.write(f"seed {options.seed}, file {number}, {path.name}: {broken!r}\n")
                raise
            if time.monotonic() - started > _SLOWEST_S:
                raise AssertionError(f"slow: seed {options.seed}, file {number}")
            if not fits and broken != whole[path] and not said.startswith("refused"):
                raise AssertionError(f"{said}: seed {options.seed}, file {number}, {broken!r}")
            counts[said] += 1
            path.write_bytes(whole[path])
            if not fits and rng.random() < 0.5:
                # The same reader without the directory, behind a digest that fits.
                read(remade(whole[path], rng), counts)
    took = time.monotonic() - begun
    print(f"{options.files} files, seed {options.seed}, {took:.0f} s")
    for said, count in counts.most_common():
        print(f"{count:9} {said}")
    return 0


def read(content: bytes, counts: Counter[str]) -> None:
    from xds_proxy import WireError
    from xds_proxy.protocol._dialect import DELTA
    from xds_proxy.protocol._resources import resources_of
    from xds_proxy.saved._file import FileList

    file = decode(content)
    try:
        resources_of(DELTA, file.body)
        FileList.parse(file.header)
    except (UnusableFile, WireError):
        counts["refused behind the digest"] += 1
    else:
        counts["read behind the digest"] += 1


if __name__ == "__main__":
    sys.exit(main())
