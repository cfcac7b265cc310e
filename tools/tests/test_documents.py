"""The documents name files and tests that are there."""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from workspace import ROOT, Package, packages

NAMED = re.compile(r"`((?:packages|tests-e2e|tools)/[\w./-]*test_\w+\.py)(?:::(\w+))?`")


def named_tests(document: Path) -> list[tuple[str, str]]:
    return NAMED.findall(document.read_text())


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@pytest.mark.parametrize(
    ("file", "function"),
    [
        *named_tests(ROOT / "docs" / "threat-model.md"),
        *named_tests(ROOT / "docs" / "faults.md"),
    ],
)
def test_each_claim_about_threats_and_faults_is_held_by_a_test_that_is_there(
    file: str, function: str
) -> None:
    assert (ROOT / file).is_file()
    assert not function or function in functions_of(ROOT / file)


def named_modules(document: Path) -> list[str]:
    """The modules that a document names: by path, below the folder it says paths are below, or by
    name in the folder of the last path.
    """
    base, folder, found = Path(), Path(), []
    for below, name in re.findall(
        r"Paths are below `([\w./-]+)`|`([\w./-]+\.py)`", document.read_text()
    ):
        if below:
            base = folder = Path(below)
            continue
        if name.startswith("packages/"):
            folder = Path(name).parent
        elif "/" in name:
            folder = base / Path(name).parent
        elif (ROOT / base / name).is_file():
            folder = base
        found.append(str(folder / Path(name).name))
    return found


@pytest.mark.parametrize("module", named_modules(ROOT / "CONTRIBUTING.md"))
def test_each_module_that_contributors_are_sent_to_is_there(module: str) -> None:
    assert (ROOT / module).is_file()


TREE = subprocess.run(
    ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
    capture_output=True,
    text=True,
    check=True,
).stdout.splitlines()
FILES = [file for file in TREE if (ROOT / file).is_file()]
PATHS = frozenset(f"/{file}" for file in FILES)
PAST = "CHANGELOG.md"
"""Changelogs name what is gone, as they must."""
DOCUMENTS = [file for file in FILES if file.endswith(".md") and Path(file).name != PAST]
OF_OTHERS = frozenset(
    {
        # the kernel and C's library
        *("CAP_SYS_PTRACE", "MADV_DONTNEED", "MALLOC_ARENA_MAX", "mmap_threshold"),
        *("preexec_fn", "tcp_rcv_lowat", "trim_threshold"),
        # gRPC, and Prometheus' client
        *("free_large_allocator", "grpc_server_add_channel_from_fd", "memory_optimization_01"),
        *("minimal_stack", "tcp_read_chunk_size", "process_cpu_seconds_total"),
        *("process_open_fds", "process_resident_memory_bytes"),
        # Envoy and Istio
        *("FAIL_RELOAD", "ISTIO_META_WORKLOAD_ENTRY", "OUTBOUND_LISTENER_EXACT_BALANCE"),
        *("allow_paths", "mysql_proxy", "resource_locators"),
        *("_canonical_revision", "_canonical_service", "envoy_server_stats_overflow_counter"),
        # examples, and parts of names
        *("greeter.py", "test_failed_renewal_keeps_the_old_certificate", "_PORTNAME", "_02"),
        *("BLOCKED_CIDRS_", "_per_identity"),
    }
)
"""Names of the kernel, of C's library, gRPC, Envoy, Istio and Prometheus, and examples of names."""


def words_of(files: Iterable[str]) -> set[str]:
    """All words of the files that are no documents, and the names of these files."""
    found: set[str] = set()
    for file in files:
        if file.endswith(".md"):
            continue
        found.update(Path(file).with_suffix("").parts)
        with contextlib.suppress(UnicodeDecodeError):
            found.update(re.findall(r"\w+", (ROOT / file).read_text()))
    return found


@functools.cache
def known_words() -> frozenset[str]:
    words = words_of(FILES)
    # Tests are named without what all of them begin with, metrics without what theirs do.
    words |= {each.removeprefix("test_") for each in words}
    for beginning in ("mesh_agent_", "mesh_sds_", "mesh_listener_connections_"):
        words |= {each.removeprefix(beginning) for each in words if each.startswith(beginning)}
    return frozenset(words)


def is_there(name: str) -> bool:
    """Return whether a name is a word of a source, or made of two: a beginning and `_an_end`."""
    words = known_words()
    metric = name.removesuffix("_total").removeprefix("istio_agent_")
    return (
        not words.isdisjoint({name, name.upper(), metric})
        or name in OF_OTHERS
        or any(
            name[:at] in words and name[at:] in words
            for at in range(1, len(name))
            if name[at] == "_"
        )
        or any(name.startswith(each) and _has_an_end(name, each) for each in _TEMPLATES)
    )


_TEMPLATES = ("MESH_DISCOVERY_",)
"""The beginnings of variables whose middle is one of several."""


def _has_an_end(name: str, beginning: str) -> bool:
    rest = name.removeprefix(beginning).partition("_")
    return rest[0] in known_words() and f"_{rest[2]}" in known_words()


METRICS = re.compile(r"^\| name \| type \| labels \| meaning \|\n(?:\|.*\n)*", re.MULTILINE)
"""Tables of metrics. Names of metrics are made of parts: test_metrics_tables.py asks for them."""


def names_in(document: str) -> Iterator[str]:
    """Yield the names in backticks that only code of ours can have, and are not in a block."""
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(), flags=re.DOTALL | re.MULTILINE)
    text = METRICS.sub("", text)
    for name in re.findall(r"`([^`\n]+)`", text):
        if re.fullmatch(r"[\w./-]*\w\.py", name) or re.fullmatch(r"[\w-]+(/[\w-]+)+/?", name):
            yield name
        elif re.fullmatch(r"[A-Za-z_][\w.]*(\(\))?", name):
            parts = name.removesuffix("()").split(".")
            yield from (part for part in parts if "_" in part)


FOLDERS = frozenset(each.folder.name for each in packages())


def is_file_there(name: str) -> bool:
    """Return whether a file, folder or module is there; of a package, below its sources, too."""
    base, _, rest = name.rstrip("/").partition("/")
    if name.endswith(".py"):
        return any(path.endswith("/" + name.removeprefix("./")) for path in PATHS)
    if base not in FOLDERS:
        return True  # a media type, an image, a namespace and a name
    folder = f"/packages/{base}/"
    return any(f"/{name}.py" in path for path in PATHS) or any(
        f"/{rest}/" in path or path.endswith(f"/{rest}.py")
        for path in PATHS
        if path.startswith(folder)
    )


def nameless(document: str) -> Iterator[str]:
    """Yield the modules that a document names, of several of that name, without their folder.

    It may be that of another path in the paragraph.
    """
    count = Counter(path.rpartition("/")[2] for path in PATHS)
    for paragraph in re.split(r"\n\s*\n", (ROOT / document).read_text()):
        paths = re.findall(r"`([\w./-]+\.py)`", paragraph)
        folders = {Path(each).parent for each in paths if "/" in each}
        for name in (each for each in paths if "/" not in each and count[each] != 1):
            if not any((ROOT / folder / name).is_file() for folder in folders):
                yield name


@pytest.mark.parametrize(
    "document",
    [
        "ARCHITECTURE.md",
        *sorted(file for file in DOCUMENTS if file.startswith("docs/") and "/guides/" not in file),
    ],
)
def test_it_is_said_which_of_several_modules_is_meant(document: str) -> None:
    assert set(nameless(document)) == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_name_in_backticks_is_there(document: str) -> None:
    gone = {
        name
        for name in names_in(document)
        if not (is_file_there(name) if "/" in name or name.endswith(".py") else is_there(name))
    }
    assert gone - OF_OTHERS == set()


LAZY = re.compile(r"^    def __getattr__\(", re.MULTILINE)


def test_the_packages_that_load_parts_late_are_those_that_are_named() -> None:
    faces = ROOT.glob("packages/*/src/*/__init__.py")
    found = {each.parent.name for each in faces if LAZY.search(each.read_text())}
    decision = (ROOT / "docs" / "decisions" / "0017-what-is-repeated.md").read_text()
    (names,) = re.findall(r"when they are first used\*\*: (.*?)\. Five", decision, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", names)) == found


AGENT = ROOT / "packages" / "agent"


def variables_of_ours() -> list[str]:
    """The names of the agent's own variables."""
    table = AGENT / "src" / "mesh_agent" / "config" / "table" / "_variables.py"
    return sorted(set(re.findall(r'"(MESH_AGENT_\w+)"', table.read_text())))


@pytest.mark.parametrize("name", variables_of_ours())
def test_each_variable_of_the_agent_s_own_is_in_its_readme(name: str) -> None:
    assert re.search(rf"`{name}\b", (AGENT / "README.md").read_text())


@pytest.mark.parametrize("package", packages(), ids=lambda each: each.name)
def test_each_readme_says_how_to_install_from_a_checkout_and_from_wheels(
    package: Package,
) -> None:
    readme = (package.folder / "README.md").read_text()
    from_checkout = f"uv pip install ./packages/{package.folder.name}"
    from_wheels = f"--find-links dist {package.name}"
    block = readme[readme.index("```sh install\n") :]
    assert block.index(from_checkout) < block.index(from_wheels) < block.index("\n```\n")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_promises_that_an_index_has_our_packages(document: str) -> None:
    ours = {package.name for package in packages()}
    promised = [
        line
        for line in (ROOT / document).read_text().splitlines()
        for command in re.findall(r"pip install ([^#`&|]+)", line)
        if "--find-links" not in command and ours & set(re.findall(r"(?<![-\w./])[\w-]+", command))
    ]
    assert not promised


LINK = re.compile(r"\]\(([^()\s]+)\)|<(?:img|source)[^>]* (?:src|srcset)=\"([^\"]+)\"")


def anchors_of(document: Path) -> set[str]:
    """Return what links to headings end with, as GitHub makes it of their words."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


@pytest.mark.parametrize("document", [file for file in FILES if file.endswith(".md")])
def test_each_link_leads_somewhere(document: str) -> None:
    text = re.sub(r"`[^`\n]+`", "", (ROOT / document).read_text())
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    dead = []
    for target in (markdown or html for markdown, html in LINK.findall(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (ROOT / document).parent / path if path else ROOT / document
        if anchor and place.is_dir():
            place /= "README.md"
        if not place.exists() or (anchor and anchor not in anchors_of(place)):
            dead.append(target)
    assert not dead


def test_each_decision_has_a_number_of_its_own() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = Counter(path.name[:4] for path in decisions)
    assert [number for number, count in numbers.items() if count > 1] == []
    for path in decisions:
        assert path.read_text().startswith(f"# {path.name[:4]} ")
