"""Development sessions; `python3 tools/dev.py SESSION` runs one with nothing set up before.

Environments are made by uv and kept between runs. All packages share one environment a session,
installed as editable; `alone` and `build` are where each package stands by itself.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

from dev import PINS  # noqa: E402
from pythons import newest_python  # noqa: E402
from workspace import (  # noqa: E402
    Package,
    closure,
    distributions,
    lowest_versions,
    packages,
    third_party,
)

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "boundaries", "tests"]

PACKAGES = {package.folder.name: package for package in packages()}
CONSTRAINTS = ROOT / "tools" / "constraints.txt"
"""Versions and digests of everything that comes from the package index: uv refuses other files."""
DEV_REQUIREMENTS = ROOT / "tools" / "dev-requirements.txt"
PROTOS = ROOT / "proto" / "requirements.txt"
OLDEST_ENVOY = "1.36"
"""The newest patch of it is installed into the user's cache when it is first asked for."""
PARALLEL = (
    *("--numprocesses", str(2 * (os.cpu_count() or 1) + 1)),
    *("--dist", "loadfile", "--no-loadscope-reorder"),
)
"""Tests wait more than they compute. A file's tests stay in one process, for its fixtures' sake.

Files are taken in their order, in which those that wait longest come first.
"""
each_package = nox.parametrize("package", [nox.param(name, id=name) for name in PACKAGES])


def install(session: nox.Session, *arguments: str) -> None:
    """Install into the session's environment, in the versions of tools/constraints.txt."""
    session.install(*pinned(CONSTRAINTS), *arguments)


def pinned(constraints: Path) -> tuple[str, ...]:
    """Return the options by which uv takes these versions, with our own for what builds."""
    return ("--constraint", str(constraints), "--build-constraints", str(CONSTRAINTS))


def install_editable(session: nox.Session, *groups: str, only: Package | None = None) -> None:
    """Install our distributions as editable with their dependency groups, and the root's groups."""
    chosen = closure(only, *groups) if only else distributions()
    arguments = [word for each in chosen for word in ("--editable", str(each.folder))]
    for each in (only,) if only else chosen:
        for group in groups:
            if group in each.groups:
                arguments += ["--group", f"{each.folder / 'pyproject.toml'}:{group}"]
    # Not where `tool.uv.sources` says: there they are the same folders, but not editable.
    install(session, "--no-sources", *arguments)


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of all packages, the tools' own, and end to end, but for the slow ones."""
    run_all_tests(session, "not slow")


def run_all_tests(session: nox.Session, marks: str) -> None:
    """Run those tests whose marks fit the expression, of everything."""
    install_editable(session, "test")
    install(session, "--group", "test")
    run_tests_in_parallel(session, "-m", marks, *session.posargs)


def run_tests_in_parallel(session: nox.Session, *chosen: str) -> None:
    """Run tests, several at once.

    Those that fail are run once more, alone: one that fails only beside others, on a busy machine,
    is told, and is no reason to refuse a change.
    """
    (ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed").unlink(missing_ok=True)
    try:
        session.run("pytest", *PARALLEL, *chosen)
    except CommandFailed:
        session.warn("what failed is run once more, alone: a test that passes then is to be mended")
        again = ("--last-failed", "--last-failed-no-failures", "none", "--exitfirst")
        session.run("pytest", *chosen, *again)


@nox.session
@each_package
def unit(session: nox.Session, package: str) -> None:
    """Unit tests of a package, here and then on the newest Python found."""
    run_unit_tests(session, PACKAGES[package])
    session.notify(f"newest({package})", session.posargs)


@nox.session(python=newest_python() or sys.executable)
@each_package
def newest(session: nox.Session, package: str) -> None:
    """Unit tests of a package on the newest Python found."""
    if newest_python() is None:
        session.skip("no newer Python than the one that runs nox was found")
    run_unit_tests(session, PACKAGES[package])


def run_unit_tests(session: nox.Session, package: Package) -> None:
    """Run a package's tests with nothing installed but what it and they ask for."""
    install_editable(session, "test", only=package)
    session.run("pytest", str(package.folder / "tests"), *session.posargs)


@nox.session(python=newest_python() or sys.executable, reuse_venv=False)
@each_package
def alone(session: nox.Session, package: str) -> None:
    """A package from its wheel on the newest Python, with nothing but what it declares.

    Every module is imported, every command asked for its help. `--tests` runs its tests there
    too, but for slow ones and those that start an Envoy, to which it is all the same which Python
    wrote its bytes.
    """
    chosen = PACKAGES[package]
    if session.posargs and "--tests" not in session.posargs:
        session.error("arguments are for its tests, which are run with --tests: give that too")
    check_wheel(session, chosen, CONSTRAINTS)
    if "--tests" in session.posargs:
        arguments = [word for word in session.posargs if word != "--tests"]
        test_wheel(session, chosen, CONSTRAINTS, *arguments)


@nox.session(reuse_venv=False)
@each_package
def lowest(session: nox.Session, package: str) -> None:
    """A package from its wheel, with all that it requires in the lowest version that it allows."""
    chosen = PACKAGES[package]
    constraints = Path(session.virtualenv.location, "lowest.txt")
    constraints.write_text("\n".join(lowest_versions(closure(chosen))) + "\n")
    check_wheel(session, chosen, constraints)
    test_wheel(session, chosen, constraints, *session.posargs)


def check_wheel(session: nox.Session, package: Package, constraints: Path) -> None:
    """Install a package as its users do, and check all of it that needs no test to be checked."""
    required = [build_wheel(session, each) for each in closure(package)]
    session.install(*pinned(constraints), *required)
    check = (str(ROOT / "tools" / "installed.py"), str(package.folder), package.name)
    session.run("python", *check, package.import_name)
    if package.extras:
        with_extras = f"{build_wheel(session, package)}[{','.join(package.extras)}]"
        session.install(*pinned(constraints), with_extras)
        session.run("python", *check, package.import_name, "--extras")


def test_wheel(session: nox.Session, package: Package, constraints: Path, *arguments: str) -> None:
    """Run a package's tests with nothing of this checkout on the path but the tests."""
    wheels = [build_wheel(session, each) for each in closure(package, "test")]
    tools = (*wheels, *third_party(package, "test"), "pytest-xdist")
    session.install(*pinned(constraints), *tools)
    chosen = ("--without-envoy", "-m", "not slow", str(package.folder / "tests"))
    session.run("pytest", *chosen, *PARALLEL, *arguments)


WHEELS: dict[str, str] = {}
"""The wheels that this run of nox has built: file by distribution."""


def build_wheel(session: nox.Session, package: Package) -> str:
    """Build a package's wheel, once a run, and return its path."""
    if package.name not in WHEELS:
        target = ROOT / ".nox" / "wheels" / package.name
        shutil.rmtree(target, ignore_errors=True)
        session.run(
            *("uv", "build", "--quiet", "--wheel", "--out-dir", str(target)),
            *("--build-constraints", str(CONSTRAINTS), str(package.folder)),
            external=True,
        )
        (wheel,) = target.glob("*.whl")
        WHEELS[package.name] = str(wheel)
    return WHEELS[package.name]


@nox.session
def boundaries(session: nox.Session) -> None:
    """Layers, private modules, declared = imported, no package without a contract."""
    install_editable(session, "test", "bench")  # deptry knows the modules of what is installed
    install(session, "--group", "boundaries")
    session.run("python", "tools/boundaries.py", *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """Strict type checks of sources, tests and tools."""
    install_editable(session, "test", "bench")
    install(session, "--group", "test", "--group", "types")
    session.run("python", "tools/typecheck.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, format and vocabulary; --fix mends what can be mended."""
    install(session, "--group", "lint")
    session.run("ruff", "check", *session.posargs, ".")
    session.run("ruff", "format", *([] if "--fix" in session.posargs else ["--check"]), ".")
    session.run("python", "tools/vocabulary.py")


@nox.session
def protos(session: nox.Session) -> None:
    """Generate the code of proto/ and fail if what is kept differs; --update keeps it."""
    session.install("--require-hashes", "--requirement", "proto/requirements.txt")
    session.run("python", "tools/generate_protos.py", *session.posargs)


@nox.session(python=newest_python() or sys.executable)
def slow(session: nox.Session) -> None:
    """The slow tests, on the newest Python found: outages, long loads, mounts that hang."""
    run_all_tests(session, "slow")


@nox.session
def older_envoy(session: nox.Session) -> None:
    """The control plane's tests with an Envoy, on the oldest Envoy that is supported."""
    install_editable(session, "test", only=PACKAGES["discovery"])
    install(session, "pytest-xdist")
    with_it = ("--only-envoy", f"--envoy-versions={OLDEST_ENVOY}")
    folders = ("packages/envoy-config/tests", "packages/discovery/tests")
    run_tests_in_parallel(session, *with_it, *folders, *session.posargs)


@nox.session
def e2e(session: nox.Session) -> None:
    """End to end with real Envoys."""
    install_editable(session, "test")
    install(session, "--group", "test")
    session.run("pytest", "tests-e2e", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Coverage-guided fuzzing of every parser of outside bytes; `--seconds 600` each, once a week.

    Needs a Python that atheris has wheels for. `tests` runs the corpora without it.
    """
    install_editable(session, "test")
    install(session, "--group", "fuzz")
    session.run("python", "tools/fuzz.py", *session.posargs)


@nox.session
def chaos(session: nox.Session) -> None:
    """A mesh under traffic while all around it fails, ten minutes; --seconds, --seed, -o FILE."""
    install_editable(session, "test")
    install(session, "--group", "test")
    session.run("python", "tests-e2e/chaos", *session.posargs)


@nox.session
def corpora(session: nox.Session) -> None:
    """YAML that others wrote, read here and by Istio's own code; needs Go and its module proxy."""
    # The model requires all extras of istio-config, which check EnvoyFilters and keys.
    install_editable(session, "test", only=PACKAGES["mesh-model"])
    session.run("python", "tools/judge_corpora.py", *session.posargs)


@nox.session
def demo(session: nox.Session) -> None:
    """Two services that talk mutual TLS through their Envoys, on this machine."""
    install_editable(session, only=PACKAGES["local"])
    install(session, "--group", "demo")
    session.run("mesh-local", "up", "examples/two-services/mesh.yaml", "--once", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Every benchmark, or those whose path holds a given word."""
    install_editable(session, "bench")
    compile_packages(session)
    found = [*ROOT.glob("packages/*/bench/bench_*.py"), *ROOT.glob("bench/bench_*.py")]
    for file in sorted(found):
        name = str(file.relative_to(ROOT))
        if not session.posargs or any(word in name for word in session.posargs):
            session.run("python", name)


@nox.session
def budgets(session: nox.Session) -> None:
    """The figures that users compare, each held to a ratio to its floor in the same run."""
    install_editable(session, "bench")
    compile_packages(session)
    session.run("python", "bench/bench_table.py", "--hold", *session.posargs)


def compile_packages(session: nox.Session) -> None:
    """Compile our modules, as pip does when it installs: a start is measured as users have it."""
    sources = [str(each.source) for each in distributions()]
    session.run("python", "-m", "compileall", "-q", *sources)


@nox.session
def build(session: nox.Session) -> None:
    """Wheels and source distributions of everything, checked as an index would."""
    install(session, "--group", "build")
    output = ROOT / "dist"
    shutil.rmtree(output, ignore_errors=True)
    for each in distributions():
        session.run(
            *("uv", "build", "--quiet", "--out-dir", str(output)),
            *("--build-constraints", str(CONSTRAINTS), str(each.folder)),
            external=True,
        )
    session.run("twine", "check", "--strict", *sorted(map(str, output.glob("[!.]*"))))


@nox.session
def wheels(session: nox.Session) -> None:
    """A folder of wheels of everything, dist/, for `pip install --find-links dist NAME`."""
    output = ROOT / "dist"
    shutil.rmtree(output, ignore_errors=True)
    for each in packages():
        session.run(
            *("uv", "build", "--quiet", "--wheel", "--out-dir", str(output)),
            *("--build-constraints", str(CONSTRAINTS), str(each.folder)),
            external=True,
        )


@nox.session
def installs(session: nox.Session) -> None:
    """The ways to install that the READMEs name, in an environment that has nothing else."""
    for folder in ("certclient", "sds", "local"):  # the last needs all others
        python = empty_environment(session)
        where = f"./packages/{folder}"
        session.run("uv", "pip", "install", "-q", "--python", python, where, external=True)
        check_face(session, python, PACKAGES[folder])
    wheels(session)
    package = PACKAGES["certclient"]  # `alone` installs each from its wheel
    python = empty_environment(session, "--seed")
    from_wheels = ("-m", "pip", "install", "-q", "--find-links", "dist", package.name)
    session.run(python, *from_wheels, external=True)
    check_face(session, python, package)
    if shutil.which("git") is None:
        session.warn("git is not on this machine: installing by URL is not checked")
        return
    python = empty_environment(session)
    url = (
        f"git+file://{repository_of_packages(session)}#subdirectory=packages/{package.folder.name}"
    )
    session.run("uv", "pip", "install", "-q", "--python", python, url, external=True)
    check_face(session, python, package)


def repository_of_packages(session: nox.Session) -> Path:
    """Make a repository that holds packages/ as it is here; a checkout may be shallow, or none.

    And examples/: a link of a package leads there.
    """
    folder = Path(session.create_tmp(), "repository.git").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    git = ("git", f"--git-dir={folder}", f"--work-tree={ROOT}")
    author = ("-c", "user.name=installs", "-c", "user.email=installs@localhost")
    session.run("git", "init", "-q", "--bare", str(folder), external=True)
    session.run(
        *git,
        "-c",
        "core.bare=false",
        "add",
        "--",
        "packages",
        "examples",
        ".gitignore",
        external=True,
    )
    commit = ("-c", "core.bare=false", *author, "commit", "-q", "-m", "packages")
    session.run(*git, *commit, external=True)
    return folder


def empty_environment(session: nox.Session, *options: str) -> str:
    """Make an environment that holds nothing, or pip with `--seed`; return its Python."""
    folder = Path(session.virtualenv.location, "empty")
    session.run("uv", "venv", "-q", "--clear", *options, str(folder), external=True)
    return str(folder / "bin" / "python")


def check_face(session: nox.Session, python: str, package: Package) -> None:
    """Import all that an installed package promises."""
    face = str(ROOT / "tools" / "public_face.py")
    session.run(python, face, package.import_name, external=True)


@nox.session
def lock(session: nox.Session) -> None:
    """Write what is pinned anew, with the newest versions that fit together and their digests."""
    requirements = {line for each in distributions() for line in third_party(each, *each.groups)}
    requirements |= {line for each in distributions() for line in each.builds_with}
    groups = ("boundaries", "build", "demo", "fuzz", "lint", "stranger", "test", "types")
    chosen = [word for group in groups for word in ("--group", group)]
    lock_file(session, CONSTRAINTS, requirements, "--python-version", "3.11", *chosen)
    lock_file(session, DEV_REQUIREMENTS, PINS, "--python-version", "3.11")
    protoc = {line for line in PROTOS.read_text().splitlines() if line.startswith("grpcio-tools==")}
    lock_file(session, PROTOS, {line.removesuffix(" \\") for line in protoc})


def lock_file(session: nox.Session, file: Path, requirements: Iterable[str], *more: str) -> None:
    """Write a file of pins that these requirements need."""
    wanted = Path(session.virtualenv.location, "requirements.in")
    wanted.write_text("\n".join(sorted(requirements)) + "\n")
    session.run(
        *("uv", "pip", "compile", "--universal", "--upgrade", "--generate-hashes", "--quiet"),
        *("--no-annotate", "--custom-compile-command", "python3 tools/dev.py lock"),
        *("--output-file", str(file), *more, str(wanted), *session.posargs),
        external=True,
    )
