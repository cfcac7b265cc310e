"""Reads a configuration as the server would, and judges it, for people who write it.

All mistakes are found in one round: of an object with mistakes, what is right is judged with the
others, so that each field and each reference is reported beside each other, and none twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from istio_config import ConfigObject, FileContent, read_content, whole_of
from istio_config.kinds.mesh_config import InterceptionMode
from istio_config.manifests import manifest_of, review_manifests
from mesh_configfile import MAX_BYTES, Problem, field_name, read_documents
from mesh_discovery._config_error import ConfigError
from mesh_discovery.sources.files._first_load import first_reading
from mesh_discovery.sources.files._loader import ConfigLoader
from mesh_filewatch import read_bytes
from mesh_findings import (
    Reference,
    Sort,
    Undecided,
    advise_on,
    empty_subsets,
    missing_subsets,
    references,
    review,
    selections_of_nothing,
)
from mesh_model import (
    NO_WORKLOAD_RULES,
    Facts,
    MeshModel,
    Workload,
    WorkloadRules,
    build_model,
)
from mesh_model.proxy_configs import StartSettings, proxy_configs_for

if TYPE_CHECKING:
    from mesh_discovery.comparison._differences import DifferentResource
    from mesh_discovery.comparison._held import Held


class NotComparableError(Exception):
    """A config dump that does not say whose it is, or is of a proxy that can't be served."""


_BY_LABELS = frozenset({"IST0101", "IST0149", "IST0162", "IST0173"})
"""The codes of what is missing, which may stand in what could not be read."""


class ObjectPlace(NamedTuple):
    """Where an object begins, and its kind, namespace and name."""

    file: str
    line: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of `check_configuration`.

    problems: mistakes, with which the server would not start.
    unreachable: objects that the server accepts and no proxy can reach.
    missing: those of `unreachable` where a rule names something that is not there.
    notes: objects and fields that it accepts and that have no effect.
    warnings: fields with an effect that is probably not meant.
    hints: matters of style, and what is right as long as nothing else changes.
    objects_at: where each object of these files begins, by file and line.
    unjudged: how many times services are named where none is defined, so that no one can tell
        whether they are right.
    different: what the proxy of a config dump has otherwise; None if there was nothing to compare.
    workload_rules, root_namespace: by which `start_settings` decides.
    """

    objects: int
    files: int
    problems: tuple[Problem, ...]
    unreachable: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()
    missing: tuple[Problem, ...] = ()
    hints: tuple[Problem, ...] = ()
    objects_at: tuple[ObjectPlace, ...] = ()
    unjudged: int = 0
    different: "tuple[DifferentResource, ...] | None" = None
    workload_rules: WorkloadRules = field(default=NO_WORKLOAD_RULES, repr=False)
    root_namespace: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the server would start with it, reach all of it, and give what a proxy has."""
        return not (self.problems or self.unreachable or self.different)

    def start_settings(self, namespace: str, labels: Mapping[str, str]) -> StartSettings:
        """Return how the proxy of a workload is to be started by the ProxyConfigs for it.

        It is for who starts agents, as an injector does; the agent's own settings go before it.
        """
        workload = Workload(namespace, tuple(sorted(labels.items())))
        found = proxy_configs_for(self.workload_rules, workload, root_namespace=self.root_namespace)
        return found.settings


def check_configuration(
    directory: Path,
    *,
    mesh_config: Path | None = None,
    mesh_networks: Path | None = None,
    beside: Sequence[Path] = (),
    allow_unsupported: bool = False,
    believe_timestamps: bool = False,
    strict_namespaces: bool = False,
    interception: InterceptionMode | None = None,
    against: "Held | None" = None,
    trust_domain: str = "cluster.local",
    domain: str = "cluster.local",
) -> Checked:
    """Read a configuration once and review it.

    beside: files and directories of the same mesh, whose objects count and are not reviewed.
    strict_namespaces: as if the rules for a host were those of its own namespace alone.
    interception: how traffic comes to the proxies; None: as the mesh config says, else by iptables.
    against: what a proxy has, to be compared with what it would be given. Raises
    `NotComparableError`. trust_domain: unless the mesh config says another.
    """
    loader = ConfigLoader(
        directory,
        mesh_config=mesh_config,
        mesh_networks=mesh_networks,
        allow_unsupported=allow_unsupported,
        believe_timestamps=believe_timestamps,
        keep_lines=True,
    )
    try:
        load = first_reading(loader.load, loader)
        further = [each for path in beside for each in _contents_of(path)]
    except ConfigError as error:
        return Checked(objects=0, files=0, problems=error.problems, unreachable=(), notes=())
    contents = loader.contents()
    whole = whole_of(contents, beside=further, believe_timestamps=believe_timestamps)
    model = build_model(
        Facts(snapshot=whole.snapshot),
        default_trust_domain=trust_domain,
        domain=domain,
        strict_namespaces=strict_namespaces,
    )
    own = _Own(frozenset(load.files), whole.snapshot.objects)
    judged = _intercepting(model, interception)
    findings = review(judged)
    named = [each for each in references(whole.snapshot.objects, domain) if own.has(each.at)]
    undecided = Undecided(
        whole.snapshot.objects,
        "".join(each.unreadable for each in (*contents, *further)),
        domain,
    )
    unreported = {_field(each.at) for each in named if undecided.has(each)}
    unjudged: set[tuple[str, int, str]] = set()
    found: Iterable[Problem] = findings.problems
    if not model.services:
        unjudged = {_field(each.at) for each in named if each.sort is Sort.SERVICE} - unreported
        found = {*found, *missing_subsets(model)}
    left = unreported | unjudged
    unreachable = tuple(sorted(each for each in own.reportable(found) if _field(each) not in left))
    documents = [each for content in (*contents, *further) for each in content.documents]
    manifests = review_manifests(documents, root_namespace=model.mesh_config.root_namespace)
    pods = manifests.pods
    advice = advise_on(whole.snapshot, judged, pods)
    selecting = selections_of_nothing(whole.snapshot.objects, model, pods)
    # What was not read may be the labels, or what an endpoint is found by.
    is_whole = not any(each.unread for each in whole.snapshot.objects)

    def sure(found: Iterable[Problem]) -> Iterator[Problem]:
        return (
            each
            for each in found
            if each.code not in _BY_LABELS or (is_whole and _field(each) not in unreported)
        )

    subsets = empty_subsets(model, pods) if is_whole else ()
    of_mesh = own.reportable(
        (
            *model.warnings,
            *findings.warnings,
            *selecting,
            *subsets,
            *manifests.warnings,
            *sure(advice.warnings),
        )
    )
    return Checked(
        objects=len(load.snapshot.objects),
        files=len(load.files),
        problems=tuple(sorted({*load.problems, *whole.duplicates})),
        unreachable=unreachable,
        missing=_at(named, unreachable),
        notes=tuple(dict.fromkeys((*load.snapshot.notes, *own.reportable(whole.snapshot.notes)))),
        warnings=(*(each for content in contents for each in content.warnings), *of_mesh),
        hints=tuple(sorted(own.reportable((*sure(advice.hints), *manifests.hints)))),
        objects_at=tuple(sorted(_places(contents))),
        unjudged=len(unjudged),
        different=_different(model, against, domain) if against is not None else None,
        workload_rules=WorkloadRules.build(
            load.snapshot, root_namespace=model.mesh_config.root_namespace
        ),
        root_namespace=model.mesh_config.root_namespace,
    )


class _Own:
    """Leaves out problems of other files, and those that follow from a mistake that is reported."""

    def __init__(self, files: frozenset[str], objects: Iterable[ConfigObject]) -> None:
        self._files = files
        self._objects: dict[str, list[ConfigObject]] = {}
        for each in sorted(objects, key=lambda each: each.line):
            if each.unread:
                self._objects.setdefault(each.file, []).append(each)

    def reportable(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Yield the problems that are to be reported."""
        for each in problems:
            if self.has(each):
                yield each

    def has(self, problem: Problem) -> bool:
        """Return whether a problem is one of these files, and not of a field that was not read."""
        is_here = not problem.file or problem.file in self._files
        return is_here and not self._follows(problem)

    def _follows(self, problem: Problem) -> bool:
        for item in self._objects.get(problem.file, ()):
            last = item.line + max((line for _, line in item.lines), default=0)
            if item.line <= problem.line <= last:
                return any(
                    _is_around(field_name(each), problem.field)
                    or _is_around(problem.field, field_name(each))
                    for each in item.unread
                )
        return False


def _is_around(outer: str, inner: str) -> bool:
    """Return whether a field is another one, or around it."""
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))


def _at(named: Iterable[Reference], problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems of the fields that name something."""
    fields = {_field(each.at) for each in named}
    return tuple(each for each in problems if _field(each) in fields)


def _field(problem: Problem) -> tuple[str, int, str]:
    return problem.file, problem.line, problem.field


def _contents_of(path: Path) -> tuple[FileContent, ...]:
    """Read a file or directory of the same mesh; raises `ConfigError` if there is nothing in it."""
    loader = ConfigLoader(path, keep_lines=True)
    if path.is_dir():
        first_reading(loader.load, loader)
        found = loader.contents()
    else:
        try:
            data = read_bytes(path, max_bytes=MAX_BYTES)
        except OSError as error:
            said = f"can't be read: {error.strerror}"
            raise ConfigError([Problem(file=str(path), line=1, message=said)]) from error
        found = (read_content(data, file=str(path), keep_lines=True),)
    if not any(each.objects or each.rest for each in found):
        problems = [problem for each in found for problem in each.problems]
        nothing = Problem(file=str(path), line=1, message="has no object in it")
        raise ConfigError(problems or [nothing])
    return found


def mesh_local_file(directory: Path) -> Path | None:
    """Return the file of mesh-local that a directory of rules belongs to, by its common name."""
    for folder in (directory, directory.parent):
        file = folder / "mesh.yaml"
        try:
            documents, _ = read_documents(file.read_bytes(), file=str(file))
        except OSError:
            continue
        if any(
            isinstance(each.value, dict) and isinstance(each.value.get("workloads"), list)
            for each in documents
        ):
            return file
    return None


def _places(contents: Iterable[FileContent]) -> Iterator[ObjectPlace]:
    for content in contents:
        for each in content.documents:
            found = manifest_of(each)
            if found is not None:
                yield ObjectPlace(each.file, each.line, str(found))


def _intercepting(model: MeshModel, mode: InterceptionMode | None) -> MeshModel:
    """Return the model with a mode of interception: that given, or written, or else REDIRECT.

    What is served has NONE where nothing is written, but almost all files are for Kubernetes.
    """
    proxies = model.mesh_config.default_config
    mode = mode or proxies.given_interception_mode or InterceptionMode.REDIRECT
    given = msgspec.structs.replace(proxies, given_interception_mode=mode)
    config = msgspec.structs.replace(model.mesh_config, default_config=given)
    return replace(model, mesh_config=config)


def _different(model: MeshModel, held: "Held", domain: str) -> "tuple[DifferentResource, ...]":
    # To check alone loads neither what makes Envoy's messages nor protobuf.
    from envoy_config import NodeError, PushContext, parse_proxy
    from mesh_discovery.comparison._differences import differences
    from mesh_discovery.comparison._expected import expected_of

    if held.node is None:
        raise NotComparableError("the config dump does not have the node of its Envoy")
    try:
        proxy = parse_proxy(
            held.node,
            domain_suffix=domain,
            source="",
            mesh_interception=model.mesh_config.default_config.interception_mode,
        )
    except NodeError as error:
        raise NotComparableError(str(error)) from error
    return tuple(differences(expected_of(PushContext(model), proxy), held))
