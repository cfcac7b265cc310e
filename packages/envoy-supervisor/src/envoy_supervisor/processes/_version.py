"""A version of what Envoy runs with: binary, arguments and bootstrap, identified by a hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from envoy_supervisor._address import Address, UnixAddress
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._errors import EnvoySupervisorError
from envoy_supervisor._file_contents import content_hash
from envoy_supervisor._files import remove, write_private
from envoy_supervisor.bootstrap._render import BootstrapConfig, render_bootstrap
from envoy_supervisor.bootstrap._stats_config import DEFAULT_FLUSH_S
from envoy_supervisor.bootstrap._user_bootstrap import (
    MAX_BOOTSTRAP_BYTES,
    admin_address,
    sets_log_format,
    stats_flush_s,
)
from envoy_supervisor.processes._arguments import envoy_arguments
from mesh_filewatch import ReadTimedOut, read_bytes, read_bytes_with_timeout, run_in_thread

_OWN_FILE_S = 1.0


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration, read and rendered. `name` is equal if the same would run."""

    name: str
    config: EnvoyConfig
    content: str
    """The bootstrap, rendered or as read from the user's own file."""
    admin: Address | UnixAddress
    own_listeners: tuple[Address, ...]
    sets_log_format: bool
    stats_flush_s: float
    fixed_listeners: bool
    """No control plane says where Envoy listens."""


def read_version(config: EnvoyConfig) -> Version:
    """Read or renders the bootstrap, and looks at the binary.

    Raises `BootstrapError` for values that cannot be rendered, `EnvoySupervisorError` for a file
    that cannot be read.
    """
    bootstrap = config.bootstrap
    if isinstance(bootstrap, BootstrapConfig):
        content = json.dumps(render_bootstrap(bootstrap), indent=1)
        admin, own_listeners, log_format = bootstrap.admin, bootstrap.own_listeners, False
        flush_s = bootstrap.stats.flush_interval_s or DEFAULT_FLUSH_S
    else:
        try:
            content = _read(bootstrap)
        except OSError as error:
            raise EnvoySupervisorError(
                f"cannot read the bootstrap file {bootstrap}: {error.strerror}"
            ) from error
        admin, own_listeners = config.admin or admin_address(bootstrap), ()
        log_format = sets_log_format(content)
        flush_s = stats_flush_s(bootstrap)
    return Version(
        name=_name(config, content),
        config=config,
        content=content,
        admin=config.admin or admin,
        own_listeners=own_listeners,
        sets_log_format=log_format or any(map(sets_log_format, config.extra_args)),
        stats_flush_s=flush_s,
        fixed_listeners=_fixed_listeners(content, config.extra_args),
    )


async def fetch_version(config: EnvoyConfig) -> Version:
    """Does what `read_version` does, without holding up the loop: a mount may hang."""
    about = config.binary if isinstance(config.bootstrap, BootstrapConfig) else config.bootstrap
    try:
        return await run_in_thread(partial(read_version, config), path=about)
    except ReadTimedOut as error:
        raise EnvoySupervisorError(
            f"envoy's bootstrap, binary or watched files cannot be read: {error}"
        ) from error


@contextmanager
def bootstrap_file(version: Version, path: Path) -> Iterator[Path]:
    """Provides the file to start Envoy with: the user's own, or one at `path`, removed afterwards.

    If the user's file has changed since it was read, it is another version's: one that was refused,
    or that no caller has asked for yet. Then a file with the content that was read is written.
    """
    own = version.config.bootstrap
    if isinstance(own, Path):
        if _has_content_of(own, version):
            yield own
            return
        path = path.with_suffix(own.suffix)  # which tells Envoy what language it is
    try:
        write_private(path, version.content)
    except OSError as error:
        raise EnvoySupervisorError(f"cannot write {path}: {error.strerror}") from error
    try:
        yield path
    finally:
        remove(path)


def _has_content_of(file: Path, version: Version) -> bool:
    try:
        # If its mount hangs, the content that was read is used.
        content = read_bytes_with_timeout(
            file, max_bytes=MAX_BOOTSTRAP_BYTES, timeout_s=_OWN_FILE_S
        )
        return content.decode("utf-8", "surrogateescape") == version.content
    except OSError:
        return False


def _read(bootstrap: Path) -> str:
    content = read_bytes(bootstrap, max_bytes=MAX_BOOTSTRAP_BYTES)
    return content.decode("utf-8", "surrogateescape")


def _fixed_listeners(bootstrap: str, extra_args: tuple[str, ...]) -> bool:
    """Return whether it is certain that the bootstrap has all listeners."""
    if any(argument.startswith("--config") for argument in extra_args):
        return False  # merged into the bootstrap
    try:
        content = json.loads(bootstrap)
        # Envoy takes both spellings.
        resources = [content.get(name) or {} for name in ("dynamic_resources", "dynamicResources")]
        return not any({"lds_config", "ldsConfig"} & part.keys() for part in resources)
    except (ValueError, AttributeError):
        return False


def _name(config: EnvoyConfig, bootstrap: str) -> str:
    parts = [bootstrap, *envoy_arguments(config, Path()), str(config.binary)]
    parts.append(content_hash(config.watched_files))
    try:
        # A package manager replaces a binary under the same name.
        binary = config.binary.stat()
        facts = (binary.st_dev, binary.st_ino, binary.st_size, binary.st_mtime_ns)
        parts += [str(fact) for fact in facts]
    except OSError:
        pass  # the error comes when the binary is started
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
