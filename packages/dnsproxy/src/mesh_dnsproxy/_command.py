"""`python -m mesh_dnsproxy --table FILE --listen HOST:PORT`: the server as a command."""

import argparse
import asyncio
import importlib.util
import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mesh_dnsproxy._config import DnsConfig
from mesh_dnsproxy._errors import AddressInUse, ConfigError
from mesh_dnsproxy._following import follow
from mesh_dnsproxy._server import DnsServer, serving
from mesh_dnsproxy.forwarding._cache import CacheConfig
from mesh_dnsproxy.forwarding._forwarder import ForwardConfig
from mesh_dnsproxy.forwarding._resolv_conf import Upstream, parse_upstream
from mesh_dnsproxy.serving._addresses import ListenAddress
from mesh_dnsproxy.table._name_table import JsonNameTable
from mesh_lifecycle import LogLevelError, configure_logging, in_background, stop_signals

log = logging.getLogger(__name__)

_MOST_TABLE_BYTES = 256 * 1024 * 1024


class _Command(NamedTuple):
    config: DnsConfig
    table: Path | None
    log_level: str


def parse_arguments(arguments: Sequence[str]) -> _Command:
    """Read the command line; raises `ConfigError`, or SystemExit as argparse does."""
    parser = argparse.ArgumentParser(
        prog="python -m mesh_dnsproxy",
        description="Answer DNS queries from a name table, and forward all others.",
    )
    defaults = DnsConfig()
    parser.add_argument(
        "--table",
        type=Path,
        metavar="FILE",
        help="the name table as JSON; read again when it changes",
    )
    parser.add_argument(
        "--listen",
        action="append",
        metavar="HOST:PORT",
        help="UDP and TCP; may be given again (default: localhost:15053)",
    )
    parser.add_argument("--domain", default=defaults.domain, help="of the mesh, with no namespace")
    parser.add_argument("--namespace", default="", help="whose hosts are known by one label")
    parser.add_argument(
        "--resolv-conf",
        type=Path,
        default=defaults.resolv_conf,
        metavar="FILE",
        help="names upstreams and search list; read again when it changes",
    )
    parser.add_argument(
        "--upstream",
        action="append",
        default=[],
        metavar="[SUFFIX=]ADDRESS[:PORT]",
        help="asked in place of resolv.conf's, or for names below a suffix; may be given again",
    )
    parser.add_argument("--parallel", action="store_true", help="ask all upstreams at once")
    parser.add_argument("--no-cache", action="store_true", help="keep no reply")
    parser.add_argument("--no-negative-cache", action="store_true", help="keep no 'there is none'")
    parser.add_argument("--no-serve-stale", action="store_true", help="expired is expired")
    parser.add_argument(
        "--no-coalesce", action="store_true", help="ask for each query anew; needs --no-cache"
    )
    parser.add_argument(
        "--forward-before-table", action="store_true", help="ask upstream until there is a table"
    )
    parser.add_argument("--log-level", default="info", help="debug, info, warn, error")
    given = parser.parse_args(arguments)
    cache = CacheConfig(negative=not given.no_negative_cache, serve_stale=not given.no_serve_stale)
    plain, by_suffix = _upstreams(given.upstream)
    config = DnsConfig(
        listen=tuple(map(ListenAddress.parse, given.listen)) if given.listen else defaults.listen,
        domain=given.domain,
        namespace=given.namespace,
        resolv_conf=given.resolv_conf,
        upstreams=plain,
        suffix_upstreams=by_suffix,
        forward_before_table=given.forward_before_table,
        forward=ForwardConfig(parallel=given.parallel, coalesce=not given.no_coalesce),
        cache=None if given.no_cache else cache,
    )
    config.check()
    return _Command(config, given.table, given.log_level)


def _upstreams(
    given: Sequence[str],
) -> tuple[tuple[Upstream, ...], dict[str, tuple[Upstream, ...]]]:
    plain: list[Upstream] = []
    by_suffix: dict[str, tuple[Upstream, ...]] = {}
    for each in given:
        suffix, equals, address = each.rpartition("=")
        try:
            server = parse_upstream(address)
        except ValueError as error:
            raise ConfigError(f"--upstream {each}: {error}") from error
        if equals:
            by_suffix[suffix] = (*by_suffix.get(suffix, ()), server)
        else:
            plain.append(server)
    return tuple(plain), by_suffix


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; returns 2 for an invalid command line."""
    try:
        command = parse_arguments(sys.argv[1:] if arguments is None else arguments)
        configure_logging(command.log_level)
    except (ConfigError, LogLevelError) as error:
        sys.stderr.write(f"mesh_dnsproxy: {error}\n")
        return 2
    factory = asyncio.new_event_loop
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_serve(command))


async def _serve(command: _Command) -> int:
    with stop_signals() as stopping:
        try:
            async with serving(command.config) as server:
                for host, port in server.addresses:
                    sys.stdout.write(f"listening on {host}:{port}\n")
                sys.stdout.flush()
                if command.table is None:
                    server.set_table({})
                    await stopping.wait()
                    return 0
                reading = follow(
                    command.table,
                    max_bytes=_MOST_TABLE_BYTES,
                    apply=partial(_use_table, server),
                    first=None,
                )
                async with in_background(reading, name="name table file"):
                    await stopping.wait()
        except (AddressInUse, ConfigError) as error:
            sys.stderr.write(f"mesh_dnsproxy: {error}\n")
            return 1
    return 0


async def _use_table(server: DnsServer, content: bytes) -> None:
    server.set_table(JsonNameTable(content.decode("utf-8", "replace")))
    await server.wait_table_in_use()
