import os
import pwd
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mesh_local import StateError
from mesh_local.asking._finding import find_state
from mesh_local.state._folder import is_running, opened

OTHER = pwd.getpwuid(1).pw_name


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def run(stack: ExitStack, name: str) -> Path:
    """Have a state folder as a mesh has that runs."""
    return stack.enter_context(opened(Path(".mesh-local", name))).path


@pytest.mark.usefixtures("here")
def test_the_one_mesh_of_a_directory_needs_no_name() -> None:
    with opened(Path(".mesh-local", "mesh")) as state:
        assert find_state(file=None, state_dir=None) == state


def test_of_several_the_one_that_runs_is_meant(here: Path, stack: ExitStack) -> None:
    with opened(Path(".mesh-local", "ended")):
        pass
    assert find_state(file=None, state_dir=None).path == here / ".mesh-local" / "ended"
    assert find_state(file=None, state_dir=None).path != run(stack, "mesh")
    assert find_state(file=None, state_dir=None).path == here / ".mesh-local" / "mesh"


@pytest.mark.usefixtures("here")
def test_of_two_that_run_one_has_to_be_named(stack: ExitStack) -> None:
    run(stack, "one")
    other = run(stack, "other")
    with pytest.raises(StateError, match=r"2 meshes are in .*, one\.yaml, other\.yaml: name one"):
        find_state(file=None, state_dir=None)
    assert find_state(file=Path("other.yaml"), state_dir=None).path == other
    assert find_state(file=None, state_dir=other).path == other


@pytest.mark.usefixtures("here")
def test_a_directory_without_a_mesh_is_reported() -> None:
    with pytest.raises(StateError, match=r"no mesh runs in .*: name its file"):
        find_state(file=None, state_dir=None)
    with pytest.raises(StateError, match=r"the mesh of mesh\.yaml has not run"):
        find_state(file=Path("mesh.yaml"), state_dir=None)
    with pytest.raises(StateError, match="there is no state folder nowhere"):
        find_state(file=None, state_dir=Path("nowhere"))


def test_a_folder_that_others_can_write_is_not_believed(here: Path) -> None:
    with opened(here / "state"):
        pass
    (here / "state").chmod(0o770)
    with pytest.raises(StateError, match="other users can write the state folder"):
        find_state(file=None, state_dir=here / "state")
    with pytest.raises(StateError, match="other users can write"), opened(here / "state"):
        pytest.fail("opened a folder that others can write")


def test_a_link_in_place_of_a_folder_is_not_followed(here: Path) -> None:
    with opened(here / "state"):
        pass
    (here / "link").symlink_to(here / "state")
    with pytest.raises(StateError, match="is no folder"):
        find_state(file=None, state_dir=here / "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder to another user takes root")
def test_another_users_folder_is_not_believed(here: Path) -> None:
    with opened(here / "state"):
        pass
    os.chown(here / "state", 1, 1)
    with pytest.raises(StateError, match=f"belongs to {OTHER}: run this as that user"):
        find_state(file=None, state_dir=here / "state")
    with pytest.raises(StateError, match=f"belongs to {OTHER}"), opened(here / "state"):
        pytest.fail("opened another user's folder")


def test_a_mesh_that_ended_does_not_run_whatever_it_left(here: Path) -> None:
    with opened(here / "state") as state:
        assert is_running(state)
    assert not is_running(state)
    assert (here / "state/lock").exists()
