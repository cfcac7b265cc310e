"""Objects that a program has, as a source: for programs with a control plane inside, and tests."""

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec

from istio_config import (
    FileContent,
    InStore,
    ObjectKey,
    Snapshots,
    duplicate,
    object_key,
    read_object,
)
from mesh_configfile import Document, Problem, Value
from mesh_discovery._config_error import ConfigError
from mesh_discovery.sources._reading import Reading
from mesh_discovery.sources._source import OnChange

PlainObject = Mapping[str, object]
"""What a YAML document of an object holds: apiVersion, kind, metadata and spec, as plain data."""


class MemorySource:
    """Objects in memory, which are read as those in files are.

    Each call counts as a whole: of one with a mistake nothing is taken, and what was there stays.
    Calls come from the thread of the event loop that serves them.
    """

    def __init__(
        self,
        objects: Iterable[PlainObject] = (),
        *,
        name: str = "memory",
        cluster: str = "",
        allow_unsupported: bool = False,
        believe_timestamps: bool = False,
    ) -> None:
        """Have these objects; raises `ConfigError` with every mistake in them.

        name: what mistakes call the source. cluster: the one that the objects are of, as a part of
        their keys, and as the registry by which MeshNetworks may say their network.
        allow_unsupported: fields that only Istio has are accepted and noted.
        believe_timestamps: `creationTimestamp` counts between namespaces.
        """
        self._name = name
        self._cluster = cluster
        self._allow_unsupported = allow_unsupported
        self._snapshots = Snapshots(believe_timestamps=believe_timestamps)
        self._contents = self._read(objects)
        self.snapshot = self._snapshots.build(self._contents.values())
        """The objects now."""
        self._on_change: OnChange | None = None
        self.reading = Reading(looked_at=time.time())
        """The outcome of the last call that changed something."""

    def put(self, *objects: PlainObject) -> None:
        """Add objects, each in place of the one of its kind, namespace and name, if there is one.

        Raises `ConfigError`.
        """
        come = self._read(objects)
        gone = [self._contents[key] for key in come if key in self._contents]
        self._contents |= come
        self._apply(gone, [*come.values()])

    def remove(self, kind: str, name: str, *, namespace: str = "default") -> None:
        """Have an object no longer; raises KeyError if there is none.

        kind: with its group if there is one, such as ServiceEntry.networking.istio.io.
        """
        for key, content in self._contents.items():
            item = content.objects[0]
            if (item.name, item.namespace) == (name, namespace) and kind in (
                item.kind,
                f"{item.kind}.{item.group}",
            ):
                del self._contents[key]
                self._apply([content], [])
                return
        raise KeyError(f"{kind} {namespace}/{name}")

    def replace(self, objects: Iterable[PlainObject]) -> None:
        """Have these objects and no others; raises `ConfigError`.

        Of objects that say what they said before, nothing is taken for changed.
        """
        found, before = self._read(objects), self._contents
        self._contents = {
            key: before[key] if before.get(key) == each else each for key, each in found.items()
        }
        gone = [each for key, each in before.items() if self._contents.get(key) is not each]
        come = [each for key, each in self._contents.items() if before.get(key) is not each]
        self._apply(gone, come)

    async def is_current(self) -> bool:
        """Return True: calls take effect at once."""
        return True

    @asynccontextmanager
    async def following(self, on_change: OnChange) -> AsyncIterator[None]:
        """Call back after each change while the block runs; one control plane at a time."""
        if self._on_change is not None:
            raise RuntimeError(f"the source {self._name} is followed already")
        self._on_change = on_change
        try:
            yield
        finally:
            self._on_change = None

    def _apply(self, gone: list[FileContent], come: list[FileContent]) -> None:
        if not (gone or come):
            return
        edited = self._snapshots.edited(gone, come)
        if edited is None:
            edited = self._snapshots.build(self._contents.values())
        self.snapshot = edited
        self.reading = Reading(looked_at=time.time())
        if self._on_change is not None:
            self._on_change(at=time.monotonic())

    def _origin(self, value: Value) -> InStore:
        metadata = value.get("metadata") if isinstance(value, dict) else None
        given = metadata if isinstance(metadata, dict) else {}
        generation = given.get("generation")
        return InStore(
            store=self._name,
            cluster=self._cluster,
            uid=str(given.get("uid", "")),
            resource_version=str(given.get("resourceVersion", "")),
            generation=generation if isinstance(generation, int) else 0,
        )

    def _read(self, objects: Iterable[PlainObject]) -> dict[ObjectKey, FileContent]:
        found: dict[ObjectKey, FileContent] = {}
        problems: list[Problem] = []
        for index, each in enumerate(objects):
            plain = _plain(each)
            read = read_object(
                Document.from_value(plain, file=_place(self._name, index, each)),
                allow_unsupported=self._allow_unsupported,
            )
            problems += read.problems
            if read.item is None:
                continue
            item = replace(read.item, origin=self._origin(plain))
            content = FileContent(objects=(item,), notes=read.notes, warnings=read.warnings)
            first = found.setdefault(object_key(item), content)
            if first is not content:
                problems.append(duplicate(item, first.objects[0]))
        if problems:
            raise ConfigError(problems)
        return found


def _plain(value: PlainObject) -> Value:
    """Return a copy, which no later change of the program's data reaches."""
    found: Value = msgspec.json.decode(msgspec.json.encode(value))
    return found


def _place(source: str, index: int, value: PlainObject) -> str:
    """Return what mistakes call an object: what it is, or which one if it does not say."""
    kind, metadata = value.get("kind"), value.get("metadata")
    if kind is None:
        return f"{source}[{index}]"
    if not isinstance(metadata, Mapping):
        return f"{source}: {kind}"
    return f"{source}: {kind} {metadata.get('namespace', 'default')}/{metadata.get('name', '')}"
