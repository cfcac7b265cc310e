"""Each wrong file keeps its own last good content, whatever happens to the others."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from istio_config import object_key, read_content
from mesh_configfile import MAX_BYTES
from mesh_discovery import ConfigLoader, Load
from mesh_discovery.sources.files._last_good import FoundFile, ServedFiles, serve_last_good

WRONG = "spec: [\n"


def policy(name: str, mode: str = "STRICT") -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
        f"metadata: {{name: {name}}}\nspec: {{mtls: {{mode: {mode}}}}}\n"
    )


def several(*names: str) -> str:
    return "---\n".join(policy(name) for name in names)


class Clock:
    """Tells the time it was last given."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loader(config_dir: Path, clock: Clock) -> ConfigLoader:
    return ConfigLoader(config_dir, clock=clock)


def served(load: Load) -> set[str]:
    return {each.name for each in load.snapshot.objects}


def wrong(load: Load) -> list[str]:
    return sorted(Path(each.file).name for each in load.wrong)


def test_the_other_files_apply_while_one_is_wrong(
    config_dir: Path, loader: ConfigLoader, clock: Clock
) -> None:
    (config_dir / "a.yaml").write_text(several("a", "b"))
    loader.load()
    clock.now = 200.0
    (config_dir / "a.yaml").write_text(WRONG)
    (config_dir / "new.yaml").write_text(policy("new"))

    load = loader.load()

    assert served(load) == {"a", "b", "new"}
    (only,) = load.wrong
    assert (only.file, only.since) == (f"{config_dir}/a.yaml", 200.0)
    assert (only.kept_objects, only.kept_from) == (2, 100.0)
    assert [str(each) for each in only.problems] == [str(each) for each in load.problems]


def test_a_file_that_never_was_right_has_nothing_in_its_place(
    config_dir: Path, loader: ConfigLoader
) -> None:
    loader.load()
    (config_dir / "a.yaml").write_text(several("a", "b") + "---\nkind: Nothing\n")

    load = loader.load()

    assert not served(load)
    assert [(each.kept_objects, each.kept_from) for each in load.wrong] == [(0, None)]


def test_a_file_that_is_wrong_in_another_way_is_wrong_since_it_first_was(
    config_dir: Path, loader: ConfigLoader, clock: Clock
) -> None:
    file = config_dir / "a.yaml"
    file.write_text(WRONG)
    loader.load()
    clock.now = 300.0
    file.write_text("kind: Other\n")

    (only,) = loader.load().wrong

    assert only.since == 100.0
    assert any("unknown kind" in each.message for each in only.problems)


def test_a_wrong_file_that_is_deleted_takes_what_it_kept_with_it(
    config_dir: Path, loader: ConfigLoader
) -> None:
    file = config_dir / "a.yaml"
    file.write_text(policy("a"))
    loader.load()
    file.write_text(WRONG)
    assert served(loader.load()) == {"a"}
    file.unlink()

    load = loader.load()

    assert not served(load)
    assert not load.wrong


def test_a_wrong_file_that_is_renamed_keeps_what_it_kept(
    config_dir: Path, loader: ConfigLoader, clock: Clock
) -> None:
    file = config_dir / "a.yaml"
    file.write_text(policy("a"))
    loader.load()
    file.write_text(WRONG)
    loader.load()
    clock.now = 300.0
    (config_dir / "below").mkdir()
    file.rename(config_dir / "below" / "b.yaml")

    load = loader.load()

    assert served(load) == {"a"}
    assert [(Path(each.file).name, each.since, each.kept_objects) for each in load.wrong] == [
        ("b.yaml", 100.0, 1)
    ]


def test_of_two_files_with_one_object_the_one_that_had_it_keeps_it(
    config_dir: Path, loader: ConfigLoader
) -> None:
    (config_dir / "z.yaml").write_text(policy("a", "STRICT"))
    loader.load()
    (config_dir / "a.yaml").write_text(several("a", "b"))

    load = loader.load()

    assert wrong(load) == ["a.yaml"]
    assert [each.file for each in load.snapshot.objects] == [f"{config_dir}/z.yaml"]
    assert f"the first is at {config_dir}/z.yaml:1" in load.problems[0].message

    (config_dir / "z.yaml").unlink()
    load = loader.load()

    assert not load.wrong
    assert served(load) == {"a", "b"}


def test_an_object_that_a_wrong_file_keeps_is_not_given_to_another(
    config_dir: Path, loader: ConfigLoader
) -> None:
    (config_dir / "a.yaml").write_text(policy("a"))
    (config_dir / "b.yaml").write_text(policy("b"))
    loader.load()
    (config_dir / "a.yaml").write_text(WRONG)
    (config_dir / "b.yaml").write_text(policy("a", "DISABLE"))

    load = loader.load()

    assert served(load) == {"a", "b"}
    assert wrong(load) == ["a.yaml", "b.yaml"]
    assert f"at {config_dir}/a.yaml:1 as it was before its mistakes" in load.problems[-1].message


def test_two_files_that_exchange_their_objects_are_both_right(
    config_dir: Path, loader: ConfigLoader
) -> None:
    (config_dir / "a.yaml").write_text(policy("a"))
    (config_dir / "b.yaml").write_text(policy("b"))
    loader.load()
    (config_dir / "a.yaml").write_text(policy("b"))
    (config_dir / "b.yaml").write_text(policy("a"))

    load = loader.load()

    assert not load.wrong
    assert {each.name: Path(each.file).name for each in load.snapshot.objects} == {
        "a": "b.yaml",
        "b": "a.yaml",
    }


def test_a_second_mesh_config_does_not_take_the_place_of_the_first(
    config_dir: Path, loader: ConfigLoader
) -> None:
    mesh = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {{rootNamespace: {root}}}\n"
    (config_dir / "mesh.yaml").write_text(mesh.format(root="one"))
    loader.load()
    (config_dir / "also.yaml").write_text(mesh.format(root="two"))

    load = loader.load()

    assert load.snapshot.mesh_config.root_namespace == "one"
    assert wrong(load) == ["also.yaml"]


def test_a_directory_that_cannot_be_read_keeps_what_was_below_it(
    config_dir: Path, loader: ConfigLoader
) -> None:
    (config_dir / "a.yaml").write_text(policy("a"))
    loader.load()
    config_dir.rename(config_dir.with_name("away"))

    load = loader.load()

    assert served(load) == {"a"}
    assert [(each.file, each.kept_objects) for each in load.wrong] == [(str(config_dir), 1)]


def test_a_file_that_cannot_be_read_keeps_its_content(
    config_dir: Path, loader: ConfigLoader
) -> None:
    (config_dir / "a.yaml").write_text(policy("a"))
    loader.load()
    (config_dir / "a.yaml").unlink()
    (config_dir / "a.yaml").symlink_to("/nowhere/at/all")

    load = loader.load()

    assert served(load) == {"a"}
    assert wrong(load) == ["a.yaml"]


def test_what_istio_has_and_we_have_not_is_let_pass_on_request(config_dir: Path) -> None:
    (config_dir / "a.yaml").write_text(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: v}\n"
        "spec: {parentRefs: [{name: gw}], rules: [{sessionPersistence: {sessionName: s}}]}\n"
        "---\n" + policy("a")
    )

    refused = ConfigLoader(config_dir).load()
    load = ConfigLoader(config_dir, allow_unsupported=True).load()

    assert [each.line for each in refused.problems] == [4]
    assert not load.wrong
    assert served(load) == {"a", "v"}
    assert [(each.line, each.field) for each in load.snapshot.notes] == [
        (4, "spec.rules[0].sessionPersistence")
    ]


def test_settings_of_agents_in_the_mesh_config_are_noted(config_dir: Path) -> None:
    (config_dir / "mesh.yaml").write_text(
        "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\n"
        "spec:\n  enablePrometheusMerge: true\n"
        "  defaultConfig:\n    interceptionMode: NONE\n    concurrency: 2\n"
    )

    load = ConfigLoader(config_dir).load()

    assert not load.wrong
    assert [(each.line, each.field) for each in load.snapshot.notes] == [
        (4, "spec.enablePrometheusMerge"),
        (7, "spec.defaultConfig.concurrency"),
    ]


def test_only_a_file_that_changed_is_read_again(config_dir: Path, clock: Clock) -> None:
    read: list[str] = []

    def reading(path: Path) -> bytes:
        read.append(path.name)
        return path.read_bytes()

    old, new = config_dir / "old.yaml", config_dir / "new.yaml"
    old.write_text(policy("old"))
    new.write_text(policy("new"))
    clock.now = new.stat().st_ctime + 60
    loader = ConfigLoader(config_dir, clock=clock, read=reading)
    loader.load()
    new.write_text(policy("newer"))

    assert served(loader.load()) == {"old", "newer"}
    assert read == ["new.yaml", "old.yaml", "new.yaml"]


def test_a_file_that_was_written_just_now_is_read_again_whatever_its_stamp_says(
    config_dir: Path, clock: Clock
) -> None:
    file = config_dir / "a.yaml"
    file.write_text(policy("a"))
    clock.now = file.stat().st_mtime
    contents = [file.read_bytes(), policy("b").encode()]
    loader = ConfigLoader(config_dir, clock=clock, read=lambda _: contents.pop(0))
    loader.load()

    assert served(loader.load()) == {"b"}


@pytest.mark.parametrize("kind", ["fifo", "directory of that name", "too large"])
def test_what_is_no_plain_file_is_wrong_and_holds_up_nothing(
    kind: str, config_dir: Path, loader: ConfigLoader
) -> None:
    path = config_dir / "a.yaml"
    (config_dir / "b.yaml").write_text(policy("b"))
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "too large":
            path.touch()
            os.truncate(path, MAX_BYTES + 1)
        case _:
            path.mkdir()
            (path / "c.yaml").write_text(policy("c"))

    load = loader.load()

    assert served(load) == ({"b", "c"} if path.is_dir() else {"b"})
    assert wrong(load) == ([] if path.is_dir() else ["a.yaml"])


CONTENTS = [several(*names) for names in ("", "a", "b", "c", "ab", "bc", "ca", "abc")] + [
    WRONG,
    "kind: Other\n",
]
FILES = st.dictionaries(st.sampled_from("123"), st.sampled_from(CONTENTS))


def look(files: Mapping[str, str]) -> dict[str, FoundFile]:
    return {
        path: FoundFile(content=read_content(text.encode(), file=path), digest=text.encode())
        for path, text in files.items()
    }


@given(st.lists(FILES, min_size=1, max_size=6))
def test_whatever_files_do_what_is_served_fits_together_and_right_files_are_served(
    steps: list[dict[str, str]],
) -> None:
    served_files = ServedFiles()
    for now, files in enumerate(steps):
        before, seen = served_files, look(files)

        served_files = serve_last_good(before, seen, now=float(now))

        keys = [
            object_key(o) for each in served_files.served.values() for o in each.content.objects
        ]
        assert len(keys) == len(set(keys))
        assert served_files.served.keys() <= seen.keys()
        for path, each in seen.items():
            if path not in served_files.wrong:
                assert served_files.served[path].content == each.content
            elif path in before.served:
                assert served_files.served[path] == before.served[path]
            if each.content.problems:
                assert path in served_files.wrong
        assert serve_last_good(served_files, seen, now=99.0) == served_files


@given(FILES)
def test_a_first_look_is_right_only_if_every_file_is(files: dict[str, str]) -> None:
    served_files = serve_last_good(ServedFiles(), look(files), now=0.0)

    objects = [object_key(o) for each in look(files).values() for o in each.content.objects]
    right = not any(each.content.problems for each in look(files).values())
    assert (not served_files.wrong) == (right and len(objects) == len(set(objects)))


def test_of_a_file_at_odds_only_the_objects_of_others_are_reported(
    config_dir: Path, loader: ConfigLoader
) -> None:
    (config_dir / "a.yaml").write_text(policy("x"))
    (config_dir / "b.yaml").write_text(policy("y"))
    loader.load()
    (config_dir / "a.yaml").write_text(policy("x") + "---\n" + policy("y"))

    (problem,) = loader.load().problems

    assert "a second PeerAuthentication" in problem.message
    assert f"/y, the first is at {config_dir}/b.yaml:1;" in problem.message


@pytest.mark.slow
def test_thousands_of_files_fall_back_one_after_the_other(
    config_dir: Path, loader: ConfigLoader
) -> None:
    """Each takes the name that the next one had, and the first is wrong; each keeps its own."""
    count = 3000
    names = [f"k{number:04}" for number in range(count)]
    for name in names:
        (config_dir / f"{name}.yaml").write_text(policy(name))
    loader.load()
    for number, name in enumerate(names):
        (config_dir / f"{name}.yaml").write_text(policy(names[(number + 1) % count]))
    (config_dir / f"{names[0]}.yaml").write_text("a: b\n")

    load = loader.load()

    assert served(load) == set(names)
    assert len(load.wrong) == count
    assert {each.kept_objects for each in load.wrong} == {1}
