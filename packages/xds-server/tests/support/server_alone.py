"""A server in a process of its own, so that its memory can be measured; run as a script.

Its arguments are the files of a certificate, its key and its clients' roots, or none for plaintext.
It says its address on a line, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from xds_server import (
    Listener,
    PlainListener,
    ServerConfig,
    TlsListener,
    XdsServer,
    server_context,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import admit_all
from xds_state import Make, State


async def main(certificate: list[Path]) -> None:
    state = State()
    state.set(Make().cluster("a"))
    server: XdsServer[None] = XdsServer(
        {types.CLUSTER: state}, admit=admit_all, config=ServerConfig()
    )
    server.set_ready()
    listener: Listener = PlainListener()
    if certificate:
        chain, key, roots = certificate
        context = server_context(
            certificate_chain=chain, private_key=key, client_roots=roots.read_bytes()
        )
        listener = TlsListener(context=lambda: context)
    async with serving(server, [listener]) as bound:
        sys.stdout.write(f"{bound.addresses[0]}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main([Path(each) for each in sys.argv[1:]]))
