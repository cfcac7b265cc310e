"""Every way in which people and machines save files is noticed, and settles to one load."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesh_discovery import ConfigLoader
from mesh_discovery.sources.files._watch import FileChanges, watching_files
from mesh_filewatch import WatchTiming

DEADLINE_S = 60.0
EVENTS_ONLY = WatchTiming(poll_interval_s=3600, hang_timeout_s=DEADLINE_S)
"""With it, what is noticed came from an event, also where the look at a path takes its time."""


@asynccontextmanager
async def watched(
    root: Path, *, timing: WatchTiming = EVENTS_ONLY, mesh_config: Path | None = None
) -> AsyncIterator[tuple[FileChanges, ConfigLoader]]:
    loader = ConfigLoader(root, mesh_config=mesh_config)
    async with watching_files(
        root,
        directories=loader.load().directories,
        summary=loader.signature,
        seen=loader.seen,
        timing=timing,
    ) as changes:
        yield changes, loader


async def noticed(changes: FileChanges, loader: ConfigLoader) -> set[str]:
    """Wait for a change, and return the names of the files there are then."""
    async with asyncio.timeout(DEADLINE_S):
        change = await changes.wait()
    load = loader.load(change.entries)
    if load.whole:
        await changes.follow(load.directories)
    return {Path(each).name for each in load.files}


def create(root: Path) -> None:
    (root / "new.yaml").write_text("")


def write_in_place(root: Path) -> None:
    (root / "a.yaml").write_text("# more\n")


def rename_over(root: Path) -> None:
    (root / ".a.yaml.swp").write_text("# more\n")
    (root / ".a.yaml.swp").rename(root / "a.yaml")


def move_away_and_write(root: Path) -> None:
    (root / "a.yaml").rename(root / "a.yaml~")
    (root / "a.yaml").write_text("# more\n")


def delete(root: Path) -> None:
    (root / "a.yaml").unlink()


def add_a_directory(root: Path) -> None:
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "x.yml").write_text("")


@pytest.mark.parametrize(
    ("change", "files"),
    [
        (create, {"a.yaml", "new.yaml"}),
        (write_in_place, {"a.yaml"}),
        (rename_over, {"a.yaml"}),
        (move_away_and_write, {"a.yaml"}),
        (delete, set()),
        (add_a_directory, {"a.yaml", "x.yml"}),
    ],
)
async def test_a_change_is_noticed(
    change: Callable[[Path], None], files: set[str], config_dir: Path
) -> None:
    (config_dir / "a.yaml").write_text("")
    async with watched(config_dir) as (changes, loader):
        change(config_dir)

        assert await noticed(changes, loader) == files


async def test_files_of_a_directory_created_while_watching_are_watched_too(
    config_dir: Path,
) -> None:
    async with watched(config_dir) as (changes, loader):
        (config_dir / "below").mkdir()
        (config_dir / "below" / "a.yaml").write_text("")
        assert await noticed(changes, loader) == {"a.yaml"}

        (config_dir / "below" / "b.yaml").write_text("")

        assert await noticed(changes, loader) == {"a.yaml", "b.yaml"}


async def test_a_kubernetes_volume_is_read_once_and_its_swap_is_noticed(config_dir: Path) -> None:
    def publish(version: str, text: str) -> None:
        (config_dir / version).mkdir()
        (config_dir / version / "a.yaml").write_text(text)
        (config_dir / "..data_tmp").symlink_to(version)
        (config_dir / "..data_tmp").rename(config_dir / "..data")

    publish("..2026_1", "")
    (config_dir / "a.yaml").symlink_to("..data/a.yaml")
    async with watched(config_dir) as (changes, loader):
        assert loader.load().files == (str(config_dir / "a.yaml"),)

        publish("..2026_2", "kind: nothing\n")

        assert await noticed(changes, loader) == {"a.yaml"}
        assert loader.load().problems


def point(link: Path, *, at: str) -> None:
    new = link.with_name("next")
    new.symlink_to(at)
    new.rename(link)


async def test_a_directory_behind_a_link_is_followed_to_a_new_target(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.yaml").write_text("")
    root = tmp_path / "config"
    point(root, at="one")
    async with watched(root) as (changes, loader):
        point(root, at="two")
        assert await noticed(changes, loader) == {"two.yaml"}

        (tmp_path / "two" / "more.yaml").write_text("")

        assert await noticed(changes, loader) == {"two.yaml", "more.yaml"}


async def test_a_link_to_a_file_elsewhere_is_watched_where_it_leads(
    config_dir: Path, tmp_path: Path
) -> None:
    target = tmp_path / "elsewhere" / "real.yaml"
    target.parent.mkdir()
    target.write_text("")
    (config_dir / "a.yaml").symlink_to(target)
    async with watched(config_dir) as (changes, loader):
        target.write_text("# more\n")

        assert await noticed(changes, loader) == {"a.yaml"}


async def test_the_mesh_config_file_is_watched(config_dir: Path, tmp_path: Path) -> None:
    mesh = tmp_path / "mesh"
    mesh.write_text("")
    async with watched(config_dir, mesh_config=mesh) as (changes, loader):
        new = tmp_path / "mesh.new"
        new.write_text("trustDomain: x.y\n")
        new.rename(mesh)

        assert await noticed(changes, loader) == {"mesh"}


def remove(root: Path) -> None:
    root.rmdir()


def make(root: Path) -> None:
    root.mkdir()
    (root / "a.yaml").write_text("")


async def test_a_root_that_goes_away_and_comes_back_is_watched_again(config_dir: Path) -> None:
    async with watched(config_dir) as (changes, loader):
        remove(config_dir)
        assert await noticed(changes, loader) == set()
        make(config_dir)
        while await noticed(changes, loader) != {"a.yaml"}:
            pass

        (config_dir / "b.yaml").write_text("")

        while await noticed(changes, loader) != {"a.yaml", "b.yaml"}:
            pass


async def test_a_change_between_the_first_load_and_the_watch_is_not_lost(config_dir: Path) -> None:
    loader = ConfigLoader(config_dir)
    directories = loader.load().directories
    (config_dir / "a.yaml").write_text("")

    async with watching_files(
        config_dir,
        directories=directories,
        summary=loader.signature,
        seen=loader.seen,
        timing=EVENTS_ONLY,
    ) as changes:
        assert await noticed(changes, loader) == {"a.yaml"}


async def test_reading_the_files_is_no_change(config_dir: Path) -> None:
    (config_dir / "a.yaml").write_text("")
    async with watched(config_dir) as (changes, loader):
        waiting = asyncio.create_task(changes.wait())
        loader.load()
        os.listdir(config_dir)  # noqa: PTH208
        done, _ = await asyncio.wait([waiting], timeout=0.3)

        assert not done
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_file_that_is_being_written_is_waited_for(config_dir: Path) -> None:
    file = config_dir / "a.yaml"
    file.write_text("# all\n")
    patient = EVENTS_ONLY._replace(max_settle_s=3600)
    async with watched(config_dir, timing=patient) as (changes, loader):
        waiting = asyncio.create_task(noticed(changes, loader))
        with file.open("w") as begun:
            done, _ = await asyncio.wait([waiting], timeout=0.3)
            assert not done
            begun.write("# all again\n")

        assert await waiting == {"a.yaml"}


async def test_a_file_that_stays_open_is_read_at_last(config_dir: Path) -> None:
    file = config_dir / "a.yaml"
    file.write_text("")
    impatient = EVENTS_ONLY._replace(max_settle_s=0.1)
    async with watched(config_dir, timing=impatient) as (changes, loader):
        with file.open("w") as begun:
            begun.write("kind: nothing\n")
            begun.flush()

            assert await noticed(changes, loader) == {"a.yaml"}
            assert loader.load().problems


async def test_what_events_do_not_tell_is_found_by_the_regular_look(
    config_dir: Path, tmp_path: Path
) -> None:
    target = tmp_path / "elsewhere" / "real.yaml"
    target.parent.mkdir()
    target.write_text("")
    async with watching_files(
        config_dir,
        directories=frozenset(),
        summary=lambda: target.stat().st_size,
        seen=lambda: 0,
        timing=WatchTiming(poll_interval_s=0.05),
    ) as changes:
        target.write_text("# more\n")

        async with asyncio.timeout(DEADLINE_S):
            await changes.wait()
