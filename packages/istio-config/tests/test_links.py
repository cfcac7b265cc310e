"""Links in a folder of configuration: what is looked at behind them is bounded."""

from pathlib import Path

from istio_config._tree import TreeLimits, read_tree
from mesh_configfile import Problem

LIMITS = TreeLimits(entries=200, behind_link=20, in_vain=50, depth=5)


def names(directory: Path, problems: list[Problem]) -> list[str]:
    tree = read_tree(directory, problems=problems, reach=lambda _: None, limits=LIMITS)
    return [str(Path(each).relative_to(directory)) for each in tree.files]


def filled(directory: Path, files: int) -> Path:
    directory.mkdir(parents=True)
    for number in range(files):
        (directory / f"{number:03}.yaml").touch()
    return directory


def test_a_link_leads_to_a_directory_elsewhere_of_no_more_than_so_many_entries(
    config_dir: Path, tmp_path: Path
) -> None:
    filled(config_dir / "own", 50)
    (config_dir / "few").symlink_to(filled(tmp_path / "few", 20))
    (config_dir / "many").symlink_to(filled(tmp_path / "many" / "inside", 20).parent)
    (config_dir / "next").symlink_to(filled(tmp_path / "next", 3))
    problems: list[Problem] = []

    found = names(config_dir, problems)

    assert len(found) == 20 + 50 + 3
    (problem,) = problems
    assert problem.file == str(config_dir / "many")
    assert problem.message == (
        f"leads to {tmp_path}/many, with more than 20 entries below it; "
        "link to the directories that hold configuration"
    )


def test_links_that_lead_to_too_much_are_looked_behind_only_so_often(
    config_dir: Path, tmp_path: Path
) -> None:
    filled(config_dir / "z-own", 50)
    for number in range(5):
        (config_dir / f"many{number}").symlink_to(filled(tmp_path / f"many{number}", 30))
    problems: list[Problem] = []

    found = names(config_dir, problems)

    assert len(found) == 50
    assert [Path(each.file).name for each in problems] == [f"many{number}" for number in range(5)]
    assert "is not followed" in problems[3].message


def test_links_that_lead_to_each_other_are_listed_once(config_dir: Path, tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        filled(tmp_path / one, 2)
        (tmp_path / one / "other").symlink_to(tmp_path / other)
    (config_dir / "a").symlink_to(tmp_path / "a")
    (config_dir / "inside").symlink_to(".")
    problems: list[Problem] = []

    assert names(config_dir, problems) == [
        *("a/000.yaml", "a/001.yaml"),
        *("a/other/000.yaml", "a/other/001.yaml"),
    ]
    assert not problems


def test_a_directory_of_too_many_entries_is_reported_once(config_dir: Path) -> None:
    filled(config_dir / "a", 150)
    filled(config_dir / "b", 150)
    problems: list[Problem] = []

    assert len(names(config_dir, problems)) == 150
    assert [(each.file, each.message) for each in problems] == [
        (
            str(config_dir),
            "has more than 200 entries below it; the others are not read",
        )
    ]


def test_directories_nest_so_deep(config_dir: Path) -> None:
    path = config_dir
    for _ in range(8):
        path /= "d"
        path.mkdir()
        (path / "x.yaml").touch()
    problems: list[Problem] = []

    assert len(names(config_dir, problems)) == 5
    (problem,) = problems
    assert problem.message == (
        "is more than 5 directories below the config directory; it is not read"
    )
