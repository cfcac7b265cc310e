"""The saved files of one workload: one for each type, and the list of those that belong together.

A type's file is named by its content, so that the list alone decides what is saved: it is replaced
last and at one moment. An agent that is killed at any time leaves the former files or the new ones,
and never some of both. All methods block, and are called in a thread.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mesh_protowire import WireError
from xds_proxy._config import SavedConfig
from xds_proxy.protocol._dialect import DELTA
from xds_proxy.protocol._resources import Resource, resources_of, write_response
from xds_proxy.protocol._shown import NAME, shorten
from xds_proxy.saved._directory import SavedDirectory
from xds_proxy.saved._file import Encoded, Entry, FileList, UnusableFile, decode, encode
from xds_proxy.saved._merging import Change, Merged, Resources, merge

LIST = "configuration.list"
_MAX_LIST_BYTES = 1 << 20
_OVERHEAD_BYTES = 1 << 16
"""Of a type's file beside its body."""
_TYPE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]{0,119}")
_FILE_NAME = re.compile(rf"{_TYPE_NAME.pattern}-[0-9a-f]{{16}}")
_SHOWN = 5
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Owner(NamedTuple):
    """For whom and from where configuration is saved.

    facts: what must be the same when it is used. envoy: the version of Envoy, for people.
    """

    facts: Mapping[str, str]
    control_planes: tuple[str, ...]
    envoy: str = ""


class Saved(NamedTuple):
    """The files on the disk after a call.

    files: None if there are none. withheld: names of resources left out, see `Merged`.
    """

    files: FileList | None
    withheld: Mapping[str, tuple[str, ...]] = {}


class NotSaved(Exception):
    """The configuration can't be saved; the text says why, as a part of a sentence."""


class Store:
    """Reads and writes the files of a directory; for one thread at a time."""

    def __init__(self, config: SavedConfig) -> None:
        self._config = config
        self._directory = SavedDirectory(config.directory)
        self._files: FileList | None = None
        """As on the disk, and checked; None before that, and when there are none."""
        self._all_lost = False
        """Changes were lost: what a type has is only known again when a response has all of it."""
        self._withheld: dict[str, tuple[str, ...]] = {}
        """Of each type the names of those left out so far."""
        self._known: set[str] = set()
        """The types that are known again since."""

    def close(self) -> None:
        """Let another agent have the directory."""
        self._directory.close()

    def load(self, owner: Owner, *, now: float) -> FileList | None:
        """Check every file that is saved; returns their list, None if nothing is saved.

        All are refused if one is: clusters without their endpoints, or routes without their
        clusters, would make a proxy that is ready and serves nothing.

        Raises UnusableFile, or OSError.
        """
        self._files = None
        files = self._list()
        if files is None:
            return None
        _check_owner(files, owner)
        _check_age(files, now=now, max_age_s=self._config.max_age_s)
        total = 0
        for type_url, entry in files.types.items():
            total += entry.size
            if total > self._config.max_bytes:
                raise UnusableFile(
                    f"it has {total} bytes, and at most {self._config.max_bytes} count"
                )
            for _ in self._read(type_url, entry):
                pass
        self._files = files
        return files

    def resources(self, type_url: str) -> Resources | None:
        """Return the saved resources of a type, after `load`; None if it is not saved.

        Raises UnusableFile, or OSError.
        """
        entry = None if self._files is None else self._files.types.get(type_url)
        if entry is None:
            return None
        return {resource.name: resource for resource in self._read(type_url, entry)}

    def save(
        self, owner: Owner, changes: Mapping[str, Sequence[Change]], *, current_at: float
    ) -> Saved:
        """Save what was accepted, and that it was the newest at a time.

        Raises NotSaved if that is impossible; `remove` then, as the rest is not of this moment.
        Raises UnusableFile, WireError or OSError; what was saved before then stays.
        """
        before = self._base(owner)
        written: dict[str, Encoded] = {}
        types = dict(before.types) if before is not None else {}
        withheld: dict[str, tuple[str, ...]] = {}
        for type_url, accepted in changes.items():
            outcome = self._merge(type_url, accepted)
            entry, file = _encode(type_url, outcome)
            withheld[type_url] = self._withheld[type_url] = outcome.withheld
            if types.get(type_url) != entry:
                types[type_url], written[type_url] = entry, file
        self._check_counts(types)
        self._check_there(types.keys() - changes.keys(), types)
        files = FileList(owner.facts, owner.control_planes, owner.envoy, current_at, types)
        try:
            for type_url, file in written.items():
                self._directory.write(types[type_url].file, file.parts)
            if files != before:
                self._directory.write(LIST, encode(files.header()).parts)
        except OSError as error:
            if error.errno in _FULL:
                # Else each try would leave files on a full disk that belong to nothing.
                kept = () if before is None else before.types.values()
                new = {types[type_url].file for type_url in written}
                self._directory.remove(new - {entry.file for entry in kept})
            raise
        self._files = files
        if written:
            self._directory.remove_others({LIST, *(entry.file for entry in types.values())})
        return Saved(files, withheld)

    def remove(self) -> None:
        """Remove what is saved, because some of what was accepted is lost."""
        self._files = None
        self._all_lost, self._known = True, set()
        self._directory.remove_others(())

    def _list(self) -> FileList | None:
        content = self._directory.read(LIST, max_bytes=_MAX_LIST_BYTES)
        if content is None:
            return None
        try:
            return FileList.parse(decode(content).header)
        except UnusableFile as error:
            raise UnusableFile(f"{LIST}: {error}") from error

    def _base(self, owner: Owner) -> FileList | None:
        """Return what new files are added to: the saved ones, if they are of this owner."""
        if self._files is not None and self._files.owner == owner.facts:
            return self._files
        self._files = None
        return None

    def _read(self, type_url: str, entry: Entry) -> Iterator[Resource]:
        try:
            content = self._directory.read(
                _checked_name(entry.file), max_bytes=self._config.max_bytes + _OVERHEAD_BYTES
            )
            if content is None:
                raise UnusableFile("it is missing")
            file = decode(content)
            if file.digest != entry.digest or file.header.get("type_url") != type_url:
                raise UnusableFile("it is not the one that belongs to the others")
            yield from resources_of(DELTA, file.body)
        except (UnusableFile, WireError) as error:
            raise UnusableFile(f"{entry.file}: {error}") from error

    def _merge(self, type_url: str, accepted: Sequence[Change]) -> Merged:
        whole = [i for i, change in enumerate(accepted) if change.replaces and not change.refused]
        if whole:
            self._known.add(type_url)
            return merge({}, "", accepted[whole[-1] :])
        entry = None if self._files is None else self._files.types.get(type_url)
        saved: Resources = {}
        if entry is not None:
            saved = {resource.name: resource for resource in self._read(type_url, entry)}
        outcome = merge(
            saved,
            "" if entry is None else entry.version,
            accepted,
            left_out=self._withheld.get(type_url, ()),
        )
        last = accepted[-1]
        if last.dialect is DELTA or (self._all_lost and type_url not in self._known):
            # Delta says what Envoy has; state of the world only what it asks for, some of which
            # the control plane may not have.
            missing = (last.keep or frozenset()) - outcome.resources.keys()
            missing -= {*outcome.withheld, *last.refused}
            if missing:
                raise NotSaved(
                    f"Envoy has {len(missing)} resources of {type_url} that came before, such as"
                    f" {shorten(min(missing), NAME)!r}"
                )
        self._known.add(type_url)
        return outcome

    def _check_there(self, type_urls: Iterable[str], types: Mapping[str, Entry]) -> None:
        gone = [name for name in type_urls if not self._directory.has(types[name].file)]
        if gone:
            raise NotSaved(f"the file of {min(gone)} has gone from the directory")

    def _check_counts(self, types: Mapping[str, Entry]) -> None:
        total = sum(entry.size for entry in types.values())
        if total > self._config.max_bytes:
            raise NotSaved(f"it has {total} bytes, and at most {self._config.max_bytes} are saved")
        count = sum(entry.resources for entry in types.values())
        if count > self._config.max_resources:
            raise NotSaved(
                f"it has {count} resources, and at most {self._config.max_resources} are saved"
            )


def can_be_saved(type_url: str) -> bool:
    """Return whether a type may be saved: no secrets, and none whose name makes no file name."""
    name = type_url.rpartition("/")[2]
    return not name.endswith(".Secret") and _TYPE_NAME.fullmatch(name) is not None


def _encode(type_url: str, outcome: Merged) -> tuple[Entry, Encoded]:
    resources = sorted(outcome.resources.values())
    body = (
        write_response(DELTA, type_url="", version="", nonce="", resources=(resource,))
        for resource in resources
    )
    file = encode({"type_url": type_url, "version": outcome.version}, body)
    name = f"{type_url.rpartition('/')[2]}-{file.digest[:16]}"
    return Entry(name, file.digest, len(resources), file.size, outcome.version), file


def _checked_name(name: str) -> str:
    if _FILE_NAME.fullmatch(name) is None:
        raise UnusableFile("that is no name of a saved file")
    return name


def _check_owner(files: FileList, owner: Owner) -> None:
    differences = [
        f"{name} {files.owner.get(name, '')!r}, and this is {wanted!r}"
        for name, wanted in owner.facts.items()
        if files.owner.get(name, "") != wanted
    ]
    if differences or files.owner.keys() - owner.facts.keys():
        said = "; ".join(differences[:_SHOWN]) or "other facts"
        raise UnusableFile(f"it was saved for another workload: {said}")
    if not set(files.control_planes) & set(owner.control_planes):
        shown = ", ".join(map(ascii, files.control_planes[:_SHOWN]))
        raise UnusableFile(f"it came from another control plane, {shown}")


def _check_age(files: FileList, *, now: float, max_age_s: float) -> None:
    age_s = now - files.current_at
    if age_s > max_age_s:
        raise UnusableFile(
            f"it is too old: it was current {age_s:.0f} s ago, and at most {max_age_s:.0f} s count"
        )
    if age_s < -max_age_s:
        raise UnusableFile(f"it was saved {-age_s:.0f} s in the future: the clock was set back")
