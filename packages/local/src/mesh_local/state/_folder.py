"""The state folder: what a mesh keeps between runs, and what its processes read and write.

ca/               the root certificate and its key, kept
tokens/           the key that signs the workloads' tokens, kept
jwks.json         its public half, for the control plane
mesh-config.yaml  mesh settings, generated
config/           Istio configuration, generated and the user's own
workloads/NAME/   an agent's working directory; paths in it are Istio's
logs/             one file a process, of the last run
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mesh_local._errors import StateError

TOKEN = Path("var/run/secrets/tokens/istio-token")
ROOT_CERTIFICATE = Path("var/run/secrets/istio/root-cert.pem")
LABELS = Path("etc/istio/pod/labels")
ENVOY_FILES = Path("etc/istio/proxy")


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The paths in the state folder of one mesh."""

    path: Path

    @property
    def ca(self) -> Path:
        return self.path / "ca"

    @property
    def tokens(self) -> Path:
        return self.path / "tokens"

    @property
    def jwks(self) -> Path:
        return self.path / "jwks.json"

    @property
    def mesh_config(self) -> Path:
        return self.path / "mesh-config.yaml"

    @property
    def config(self) -> Path:
        return self.path / "config"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def workload(self, name: str) -> Path:
        return self.path / "workloads" / name


@contextmanager
def opened(path: Path) -> Iterator[StateFolder]:
    """Make the folder, lock it against other runs, and remove old logs and generated files.

    Raises `StateError` when the folder can't be made or another run has it.
    """
    folder = StateFolder(path.absolute())
    try:
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(
            f"the state folder {path} can't be made: {error.strerror}; "
            "name another with --state-dir"
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(
                f"another mesh-local runs with the state folder {path}: stop it, or name another "
                "folder with --state-dir"
            ) from None
        try:
            _prepare(folder)
        except OSError as error:
            # A write that found no room names no file.
            file = f"{error.filename}: " if error.filename else ""
            raise StateError(
                f"the state folder {path} can't be written: {file}{error.strerror}"
            ) from None
        yield folder
    finally:
        os.close(lock)


def remove_leftovers(folder: Path) -> None:
    """Remove the shared memory of the Envoys of a state folder; they must have ended."""
    for directory in (folder / "workloads").glob("*"):
        remove_shared_memory(directory)


def remove_shared_memory(directory: Path) -> None:
    """Remove the shared memory of the Envoys of an agent's directory; they must have ended."""
    from envoy_supervisor import release_directory

    if (directory / ENVOY_FILES).is_dir():
        release_directory(directory / ENVOY_FILES)


def _prepare(folder: StateFolder) -> None:
    remove_leftovers(folder.path)  # of a run that was killed: its Envoys ended with it
    for stale in (folder.config, folder.logs, folder.path / "workloads"):
        if stale.exists():
            shutil.rmtree(stale)
        stale.mkdir(mode=0o700)
    write_file(folder.path / ".gitignore", "*\n")


def write_file(path: Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Write a file so that readers see either the old content or the new."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(handle, mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
