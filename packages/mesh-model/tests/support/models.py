"""Models of YAML, and a folder of it that is edited, as the control plane has them."""

from dataclasses import dataclass
from itertools import count
from pathlib import Path

from istio_config import FileContent, FileReader, Snapshot, Snapshots, read_folder
from mesh_model import NO_KEY_SETS, Facts, KeySets, MeshModel, build_model


class Models:
    """Builds models of YAML documents, each in a folder of its own below one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()

    def __call__(
        self,
        *documents: str,
        key_sets: KeySets = NO_KEY_SETS,
        domain: str = "cluster.local",
        strict_namespaces: bool = False,
        before: MeshModel | None = None,
    ) -> MeshModel:
        directory = self._folder / f"model-{next(self._numbers)}"
        directory.mkdir()
        (directory / "all.yaml").write_text("---\n".join(documents))
        found = read_folder(directory)
        assert not found.problems, [str(each) for each in found.problems]
        return build_model(
            Facts(snapshot=found.snapshot, key_sets=key_sets),
            domain=domain,
            strict_namespaces=strict_namespaces,
            before=before,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    data: bytes
    reader: FileReader
    content: FileContent


class EditedFolder:
    """A folder of YAML that is read again and again; files that did not change are not parsed."""

    def __init__(self, folder: Path, *, believe_timestamps: bool = False) -> None:
        self._folder = folder
        self._files: dict[Path, _File] = {}
        self._snapshots = Snapshots(believe_timestamps=believe_timestamps)

    def load(self) -> Snapshot:
        """Return the snapshot of the files as they are, an edit of the one before if it can be."""
        before = self._files
        self._files = {
            file: _read(file, before.get(file)) for file in sorted(self._folder.glob("*.yaml"))
        }
        gone = [each.content for file, each in before.items() if self._files.get(file) is not each]
        come = [each.content for file, each in self._files.items() if before.get(file) is not each]
        edited = self._snapshots.edited(gone, come)
        if edited is not None:
            return edited
        return self._snapshots.build(each.content for each in self._files.values())


def _read(file: Path, before: _File | None) -> _File:
    data = file.read_bytes()
    if before is not None and before.data == data:
        return before
    reader = before.reader if before is not None else FileReader(str(file))
    content = reader.read(data)
    assert not content.problems, [str(each) for each in content.problems]
    return _File(data=data, reader=reader, content=content)
