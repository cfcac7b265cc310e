"""A reading that is given which entries changed gives what a reading of everything gives."""

import shutil
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesh_discovery import ConfigError, ConfigLoader
from mesh_discovery.sources.files._first_load import first_reading
from mesh_findings import Findings, review
from mesh_model import Facts, MeshModel, build_model

Entries = Iterable[tuple[str, str]]


DECLARED = "{number: 80, name: tcp, protocol: TCP}"
UNDECLARED = "{number: 80, name: http}"
"""Accepted with a warning."""


def entry(name: str, *, address: str = "10.0.0.1", host: str = "", port: str = DECLARED) -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}}}\n"
        f"spec:\n  hosts: [{host or name}.example]\n  resolution: STATIC\n"
        f"  ports: [{port}]\n"
        f"  endpoints: [{{address: {address}}}]\n"
    )


class Reads:
    """Reads files, and keeps which."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, path: Path) -> bytes:
        self.paths.append(path.name)
        return path.read_bytes()


@pytest.fixture
def many(config_dir: Path) -> Path:
    for number in range(20):
        (config_dir / f"s{number}.yaml").write_text(entry(f"s{number}"))
    return config_dir


def test_only_what_is_reported_is_read(many: Path) -> None:
    reads = Reads()
    loader = ConfigLoader(many, read=reads)
    loader.load()
    reads.paths.clear()
    (many / "s3.yaml").write_text(entry("s3", address="10.0.0.9"))
    (many / "s4.yaml").write_text(entry("s4", address="10.0.0.9"))

    load = loader.load([(str(many), "s3.yaml")])

    assert reads.paths == ["s3.yaml"]
    assert not load.whole
    assert loader.signature() != loader.seen()
    loader.load([(str(many), "s4.yaml")])
    assert loader.signature() == loader.seen()


def test_one_edit_of_many_makes_one_service_and_leaves_the_others_as_they_are(many: Path) -> None:
    loader = ConfigLoader(many)
    before = build_model(Facts(snapshot=loader.load().snapshot))
    assert before.registry.count == 20
    (many / "s3.yaml").write_text(entry("s3", address="10.0.0.9"))

    after = build_model(
        Facts(snapshot=loader.load([(str(many), "s3.yaml")]).snapshot), before=before
    )

    assert after.registry.count == 1
    assert [
        new.name for old, new in zip(before.services, after.services, strict=True) if old is not new
    ] == ["s3"]
    assert after.auto_allocated is before.auto_allocated


def test_an_edit_of_a_file_with_a_warning_leaves_all_that_is_reported_as_it_is(many: Path) -> None:
    (many / "s3.yaml").write_text(entry("s3", port=UNDECLARED))
    loader = ConfigLoader(many)
    before = loader.load().snapshot
    (many / "s3.yaml").write_text(entry("s3", port=UNDECLARED, address="10.0.0.9"))

    after = loader.load([(str(many), "s3.yaml")]).snapshot

    assert [each.field for each in after.warnings] == ["spec.ports[0].name"]
    assert after.warnings is before.warnings
    (many / "s3.yaml").write_text(entry("s3", address="10.0.0.9"))
    assert not loader.load([(str(many), "s3.yaml")]).snapshot.warnings


def test_a_file_of_many_documents_reads_the_one_that_changed(config_dir: Path) -> None:
    file = config_dir / "all.yaml"
    documents = [entry(f"s{number}") for number in range(20)]
    file.write_text("---\n".join(documents))
    loader = ConfigLoader(config_dir)
    before = build_model(Facts(snapshot=loader.load().snapshot))
    (known,) = loader._known.values()
    read = known.reader.documents_read
    documents[3] = entry("s3", address="10.0.0.9")
    file.write_text("---\n".join(documents))

    after = build_model(
        Facts(snapshot=loader.load([(str(config_dir), "all.yaml")]).snapshot), before=before
    )

    assert known.reader.documents_read == read + 1
    assert after.registry.count == 1


def test_drafts_and_other_files_are_not_looked_for(many: Path) -> None:
    reads = Reads()
    loader = ConfigLoader(many, read=reads)
    loader.load()
    reads.paths.clear()
    (many / "README").write_text("")

    load = loader.load([(str(many), each) for each in (".s3.yaml.swp", "README", "gone~")])

    assert (reads.paths, load.whole) == ([], False)


@pytest.mark.parametrize("name", ["deep", "link.yaml"])
def test_a_directory_or_a_link_has_everything_looked_at(many: Path, name: str) -> None:
    loader = ConfigLoader(many)
    loader.load()
    if name == "deep":
        (many / name).mkdir()
        (many / name / "x.yaml").write_text(entry("x"))
    else:
        (many.parent / "x.yaml").write_text(entry("x"))
        (many / name).symlink_to("../x.yaml")

    load = loader.load([(str(many), name)])

    assert load.whole
    assert "x" in {each.name for each in load.snapshot.objects}


def test_the_mesh_config_is_distinguished_from_what_is_beside_it(many: Path) -> None:
    mesh = many.parent / "mesh"
    mesh.write_text("trustDomain: a.b\n")
    loader = ConfigLoader(many, mesh_config=mesh)
    loader.load()
    mesh.write_text("trustDomain: c.d\n")
    (many.parent / "neighbour").write_text("")

    load = loader.load([(str(many.parent), "mesh"), (str(many.parent), "neighbour")])

    assert not load.whole
    assert load.snapshot.mesh_config.trust_domain == "c.d"
    many.rename(many.parent / "away")
    assert loader.load([(str(many.parent), many.name)]).whole


def _files() -> st.SearchStrategy[str]:
    return st.sampled_from(["a.yaml", "b.yaml", "d/c.yaml", "d/e/f.yml", "z.yaml"])


_ENTRIES = st.builds(
    entry,
    st.sampled_from("abc"),
    address=st.sampled_from(["10.0.0.1", "10.0.0.2", "127.0.0.7"]),
    host=st.sampled_from(["", "same"]),
    port=st.sampled_from([DECLARED, UNDECLARED]),
)
_RULES = st.builds(
    "apiVersion: networking.istio.io/v1\nkind: {0}\nmetadata: {{name: {1}}}\nspec: {2}\n".format,
    st.just("DestinationRule"),
    st.sampled_from("rs"),
    st.sampled_from(
        [
            "{host: a.example, subsets: [{name: v1, labels: {v: one}}]}",
            "{host: a.example, subsets: [{name: v2, labels: {v: two}}]}",
            "{host: '*.example', subsets: [{name: v1, labels: {v: one}}]}",
            "{host: b.example}",
            "{host: '*.example'}",
        ]
    ),
)
_ROUTES = st.builds(
    "apiVersion: networking.istio.io/v1\nkind: {0}\nmetadata: {{name: {1}}}\nspec: {2}\n".format,
    st.just("VirtualService"),
    st.sampled_from("tu"),
    st.sampled_from(
        [
            "{hosts: [a.example], http: [{route: [{destination: {host: a.example}}]}]}",
            "{hosts: [a.example], http: [{route: [{destination: {host: a.example, subset: v1}}]}]}",
            "{hosts: [b.example], http: [{route: [{destination: {host: nowhere.example}}]}]}",
            "{hosts: ['*.example'], http: [{route: [{destination: {host: same.example}}]}]}",
            "{hosts: [b.example], gateways: [g], http: [{delegate: {name: t}}]}",
            "{http: [{route: [{destination: {host: b.example}}]}]}",
        ]
    ),
)
_TEXTS = st.lists(st.one_of(_ENTRIES, _RULES, _ROUTES), min_size=1, max_size=3).map("---\n".join)
_CHANGES = st.lists(
    st.lists(st.tuples(_files(), st.one_of(st.none(), st.just("spec: ["), _TEXTS)), max_size=3),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150)
@given(changes=_CHANGES)
def test_what_is_reported_gives_what_everything_gives(
    changes: list[list[tuple[str, str | None]]],
) -> None:
    """In any order of writing, deleting and making wrong, readings of changes are those of all."""
    root = Path(tempfile.mkdtemp()).resolve()
    seconds = count(100)
    try:
        (root / "d" / "e").mkdir(parents=True)
        now = [0.0]
        loader = ConfigLoader(root, clock=lambda: now[0])
        whole = ConfigLoader(root, clock=lambda: now[0])
        loader.load()
        whole.load()
        models: list[MeshModel] = []
        findings: Findings | None = None
        for batch in changes:
            now[0] = float(next(seconds))
            entries = _written(root, batch)
            here, there = loader.load(entries), whole.load()
            assert not here.whole
            assert (here.snapshot, here.wrong, here.files) == (
                there.snapshot,
                there.wrong,
                there.files,
            )
            assert loader.seen() == whole.seen() == loader.signature()
            model = build_model(
                Facts(snapshot=here.snapshot), before=models[-1] if models else None
            )
            alone = build_model(Facts(snapshot=there.snapshot))
            assert [replace(each, auto_addresses=()) for each in model.services] == [
                replace(each, auto_addresses=()) for each in alone.services
            ]
            findings = review(model, findings)
            assert findings.problems == review(alone).problems
            models.append(model)
    finally:
        shutil.rmtree(root)


def _written(root: Path, batch: list[tuple[str, str | None]]) -> Entries:
    for name, text in batch:
        file = root / name
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(text)
    return [(str((root / name).parent), Path(name).name) for name, _ in batch]


def test_the_order_of_objects_is_that_of_a_sorted_whole(config_dir: Path) -> None:
    loader = ConfigLoader(config_dir)
    names = ["m", "c", "x", "a"]
    for number, name in enumerate(names):
        dated = entry(name).replace(
            "}\nspec", f", creationTimestamp: 2026-01-0{9 - number}}}\nspec"
        )
        (config_dir / f"{name}.yaml").write_text(dated)
        loader.load([(str(config_dir), f"{name}.yaml")] if number else None)
    assert [each.name for each in loader.load([]).snapshot.objects] == names[::-1]


def test_a_large_configuration_takes_its_time_and_a_mount_that_hangs_does_not(
    config_dir: Path,
) -> None:
    (config_dir / "a.yaml").write_text(entry("a"))
    reading, answered = threading.Event(), threading.Event()

    def read(path: Path) -> bytes:
        reading.set()
        answered.wait()
        return path.read_bytes()

    working = ConfigLoader(config_dir)

    def work() -> str:
        working._work()
        time.sleep(0.3)  # six times as long as a file system may take
        return "done"

    assert first_reading(work, working, patience_s=0.05) == "done"
    hanging = ConfigLoader(config_dir, read=read)
    with pytest.raises(ConfigError, match=r"a\.yaml.*did not answer"):
        first_reading(hanging.load, hanging, patience_s=0.05)
    answered.set()
    assert first_reading(hanging.load, hanging).snapshot.objects
