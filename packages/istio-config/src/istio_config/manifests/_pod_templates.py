"""The pods that documents describe: Pods, and the templates of Deployments and the like."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from istio_config.manifests._manifest import Manifest
from mesh_configfile import FieldPath, Problem

_TEMPLATES: Mapping[str, FieldPath] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
_GROUPS = ("", "apps", "batch")
_PROXYS_USER = 1337
_PROXY = "istio-proxy"
_INJECT = "sidecar.istio.io/inject"


class PodTemplate(NamedTuple):
    """A pod that an object is, or makes. path: of the template in its document."""

    manifest: Manifest
    path: FieldPath

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """The labels of its pods, in order."""
        return tuple(sorted(self.manifest.texts(*self.path, "metadata", "labels").items()))

    @property
    def is_injected(self) -> bool:
        """Whether its pods may have a proxy: they do not say that they want none."""
        said = (
            self.manifest.texts(*self.path, "metadata", where).get(_INJECT)
            for where in ("labels", "annotations")
        )
        return "false" not in said


def pod_templates(manifests: Iterable[Manifest]) -> Iterator[PodTemplate]:
    """Yield the pods of documents."""
    for each in manifests:
        path = _TEMPLATES.get(each.kind)
        if path is not None and each.group in _GROUPS:
            yield PodTemplate(each, path)


def wrong_users(template: PodTemplate) -> Iterator[Problem]:
    """Yield where an application runs as the user of the proxy, whose traffic is not redirected."""
    if not template.is_injected:
        return
    spec = (*template.path, "spec")
    places: list[FieldPath] = [spec]
    for index, each in enumerate(template.manifest.items(*spec, "containers")):
        if isinstance(each, dict) and each.get("name") != _PROXY:
            places.append((*spec, "containers", index))
    for place in places:
        field = (*place, "securityContext", "runAsUser")
        if template.manifest.at(*field) == _PROXYS_USER:
            yield template.manifest.problem(
                field,
                f"{_PROXYS_USER} is the user of the proxy, whose own connections are not "
                "redirected: the application's pass it by; give the application another user",
                "IST0144",
            )
