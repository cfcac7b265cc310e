"""The state folder: what a mesh keeps between runs, and what its processes read and write.

ca/               the root certificate and its key, kept
tokens/           the key that signs the workloads' tokens, kept
jwks.json         its public half, for the control plane
mesh-config.yaml  mesh settings, generated
config/           Istio configuration, generated and the user's own
workloads/NAME/   an agent's working directory; paths in it are Istio's
logs/             one file a process, of the last run
lock              locked while a mesh runs
run/              the socket at which it is asked from other terminals
networks/         empty, but for the mesh's own processes: the workloads' networks are held there
"""

import fcntl
import os
import pwd
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mesh_local._errors import StateError

TOKEN = Path("var/run/secrets/tokens/istio-token")
ROOT_CERTIFICATE = Path("var/run/secrets/istio/root-cert.pem")
LABELS = Path("etc/istio/pod/labels")
ENVOY_FILES = Path("etc/istio/proxy")
STATE_FOLDERS = ".mesh-local"
"""The folder beside mesh files that has their state folders."""
LOCK = "lock"
_LOCK_TRIES, _LOCK_PAUSE_S = 10, 0.02
"""A command of another terminal has the lock for a moment when it looks whether a mesh has it."""


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

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def networks(self) -> Path:
        return self.path / "networks"

    def workload(self, name: str) -> Path:
        return self.path / "workloads" / name


def default_state_folder(file: Path) -> Path:
    """Return `.mesh-local/NAME` beside the mesh file."""
    return file.absolute().parent / STATE_FOLDERS / file.stem


@contextmanager
def opened(path: Path) -> Iterator[StateFolder]:
    """Make the folder, lock it against other runs, and remove old logs and generated files.

    Raises `StateError` when the folder can't be created, others could write it, or it is in use.
    """
    folder = StateFolder(path.absolute())
    try:
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_shared(folder.path)
        lock = os.open(folder.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(
            f"the state folder {path} can't be made: {error.strerror}; "
            "name another with --state-dir"
        ) from None
    try:
        try:
            _take(lock)
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


def _take(lock: int) -> None:
    """Take the lock; raises `BlockingIOError` if a mesh has it."""
    for _ in range(_LOCK_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_PAUSE_S)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_running(state: StateFolder) -> bool:
    """Return whether a mesh runs with this state folder.

    A mesh that runs has the lock, which the kernel takes away however it ends: no process id is
    kept, which another process might have later.
    """
    try:
        lock = os.open(state.path / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def refuse_shared(path: Path) -> None:
    """Raise `StateError` if the folder is another user's, or others can put files into it.

    Keys are in it, and the commands of other terminals believe what they find there.
    """
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise StateError(f"{path} is no folder")
    if found.st_uid != os.geteuid():
        raise StateError(
            f"the state folder {path} belongs to {_user_name(found.st_uid)}: run this as that "
            "user, or name another folder with --state-dir"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StateError(
            f"other users can write the state folder {path}: take that from them with chmod go-w, "
            "or name another folder with --state-dir"
        )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


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
    for stale in (folder.config, folder.logs, folder.path / "workloads", folder.run):
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
