"""The findings about a mesh before anything of it starts, and what they keep from starting."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mesh_local._errors import ConfigurationError
from mesh_local.config._plan import MeshPlan
from mesh_local.observation._findings import Findings, check_mesh
from mesh_local.processes._specs import missing_programs


def all_findings(
    plan: MeshPlan, environ: Mapping[str, str], *, allow_unsupported: bool = False
) -> Findings:
    """Return what is wrong with a mesh: programs that are not there, and its configuration."""
    found = check_mesh(plan, allow_unsupported=allow_unsupported)
    return replace(found, problems=(*missing_programs(plan.file, environ), *found.problems))


def refuse_problems(findings: Findings) -> None:
    """Raise `ConfigurationError` if the control plane or a program would not start."""
    refuse(findings.problems)


def refuse(lines: Iterable[str]) -> None:
    """Raise `ConfigurationError` with these lines, if there are any."""
    if text := "\n".join(lines):
        raise ConfigurationError(text)
