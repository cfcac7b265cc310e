"""Asks the provider's metadata server, within a time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from mesh_platform._aws import ask_aws
from mesh_platform._azure import ask_azure
from mesh_platform._errors import NoMetadata
from mesh_platform._gcp import ask_gcp
from mesh_platform._http import MetadataAddress
from mesh_platform._machine import Provider
from mesh_platform._platform import Platform

_LINK_LOCAL = MetadataAddress("169.254.169.254", 80)


class MetadataServers(NamedTuple):
    """Where each provider's metadata server listens."""

    aws: MetadataAddress = _LINK_LOCAL
    azure: MetadataAddress = _LINK_LOCAL
    gcp: MetadataAddress = _LINK_LOCAL


_SERVERS = MetadataServers()


async def detect(
    provider: Provider, *, servers: MetadataServers = _SERVERS, timeout_s: float = 5.0
) -> Platform:
    """Return this machine's place.

    timeout_s: for everything together.

    Raises `NoMetadata` if the server does not answer in time, or not as a metadata server does.
    """
    asking: dict[
        Provider, tuple[Callable[[MetadataAddress], Awaitable[Platform]], MetadataAddress]
    ] = {
        "aws": (ask_aws, servers.aws),
        "azure": (ask_azure, servers.azure),
        "gcp": (ask_gcp, servers.gcp),
    }
    ask, server = asking[provider]
    try:
        async with asyncio.timeout(timeout_s):
            return await ask(server)
    except TimeoutError as error:
        raise NoMetadata(f"{server} did not answer within {timeout_s:g} s") from error
