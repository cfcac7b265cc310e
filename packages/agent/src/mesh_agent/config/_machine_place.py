"""Where the machine is, as its cloud says: which cloud, and what is known without asking it."""

import json
from pathlib import Path
from typing import NamedTuple, get_args

from istio_settings import ProxyConfig, Settings
from mesh_platform import PROVIDERS, Platform, Provider, machine_provider

_FILE = "platform.json"
_MAX_FILE_BYTES = 64 << 10


class PlaceConfig(NamedTuple):
    """provider: the cloud to ask; None to ask none.

    known: the place, by settings or by the answer of an earlier run; None if it is not known.
    remembered: the file that keeps the answer.
    servers: other addresses of metadata servers, by provider.
    extra: metadata by settings, which wins over what the cloud says.
    """

    provider: Provider | None
    known: Platform | None
    remembered: Path
    servers: tuple[tuple[Provider, str, int], ...] = ()
    extra: tuple[tuple[str, str], ...] = ()


def place_config(settings: Settings, proxy: ProxyConfig) -> PlaceConfig:
    remembered = settings.under(proxy.config_path) / _FILE
    given = _gcp(settings)
    provider = _provider(settings) or ("gcp" if given is not None else None)
    if provider == "gcp" and given is not None and given.zone:
        return PlaceConfig(None, given, remembered)
    if provider is None:
        return PlaceConfig(None, None, remembered)
    known = _remembered(settings, remembered, provider)
    if provider == "aws" and settings.flag("AWS_EC2_METADATA_DISABLED"):
        return PlaceConfig(None, known, remembered)
    extra = given.metadata.items() if provider == "gcp" and given is not None else ()
    return PlaceConfig(provider, known, remembered, tuple(_servers(settings)), tuple(extra))


def _provider(settings: Settings) -> Provider | None:
    text = settings.text("CLOUD_PLATFORM").lower()
    if text == "none":
        return None
    for provider in PROVIDERS:
        if text == provider:
            return provider
    if text:
        settings.problems.append(
            f"CLOUD_PLATFORM is {text!r}, it must be one of {', '.join(get_args(Provider))}, none"
        )
    return machine_provider()


def _gcp(settings: Settings) -> Platform | None:
    """Return what settings say of a machine on GCP; None if they say nothing."""
    text, zone = settings.text("GCP_METADATA"), settings.text("GCP_ZONE")
    url = settings.text("GKE_CLUSTER_URL")
    if not (text or zone or url):
        return None
    from mesh_platform import gcp_platform

    parts = text.split("|") if text else ["", "", "", ""]
    if len(parts) != 4:
        settings.problems.append(
            f"GCP_METADATA is {text!r}, it must be PROJECT|NUMBER|CLUSTER|ZONE, as in "
            "shop|1234|main|europe-west1-b"
        )
        return None
    names = ("gcp_project", "gcp_project_number", "gcp_gke_cluster_name")
    metadata = {name: part for name, part in zip(names, parts, strict=False) if part}
    if url:
        metadata["gcp_gke_cluster_url"] = url
    return gcp_platform(zone or parts[3], metadata)


def _servers(settings: Settings) -> list[tuple[Provider, str, int]]:
    """Return other addresses of metadata servers, by the variables that the clouds' tools read."""
    found: list[tuple[Provider, str, int]] = []
    variables: tuple[tuple[Provider, str], ...] = (
        ("aws", "AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        ("gcp", "GCE_METADATA_HOST"),
    )
    for provider, name in variables:
        text = settings.text(name)
        host, colon, port = text.removeprefix("http://").rstrip("/").rpartition(":")
        if not colon:
            host, port = port, "80"
        if text and not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            settings.problems.append(
                f"{name} is {text!r}, it must be the host and port of a server"
            )
        elif text:
            found.append((provider, host.strip("[]"), int(port)))
    return found


def _remembered(settings: Settings, path: Path, provider: str) -> Platform | None:
    """Return the answer of an earlier run; a file that is none of ours is no answer."""
    try:
        values = json.loads(settings.read_file(path, max_bytes=_MAX_FILE_BYTES))
        name, region, zone, metadata = values
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    texts = [name, region, zone, *metadata.values()] if isinstance(metadata, dict) else [None]
    if name != provider or not all(isinstance(each, str) for each in texts):
        return None
    return Platform(name, region, zone, metadata)
