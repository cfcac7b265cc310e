"""The ages of all objects in a configuration, by the order of its namespaces.

An object is read with the age that it has where namespaces are ordered by their names alone. Few
configurations decide another order: by `rootNamespace`, or by Namespace objects with dates.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from istio_config._file_content import FileContent
from istio_config._objects import ConfigObject
from istio_config._seniority import BY_NAME, Seniority, date_of
from istio_config.kinds.kubernetes import NAMESPACE
from istio_config.kinds.mesh_config import MeshConfigSpec
from mesh_configfile import Problem

_SHARED = frozenset(
    {
        "Gateway",
        "GRPCRoute",
        "HTTPRoute",
        "Ingress",
        "ListenerSet",
        "Service",
        "ServiceEntry",
        "TCPRoute",
    }
    | {"TLSRoute", "VirtualService"}
)
"""The kinds whose objects compete with those of other namespaces, for a host or a route."""


def seniority_of(contents: Iterable[FileContent], *, believes: bool = False) -> Seniority:
    """Return the order of namespaces that a configuration decides."""
    if believes:
        return Seniority(believes=True)
    root, dates = BY_NAME.root_namespace, dict[str, str]()
    for item in _deciding(contents):
        if isinstance(item.spec, MeshConfigSpec):
            root = item.spec.root_namespace
        elif date_of(item.created):
            dates[item.name] = date_of(item.created)
    return Seniority(root_namespace=root, dates=dates)


def decides(contents: Iterable[FileContent]) -> bool:
    """Return whether these contents can change the order of namespaces."""
    return any(True for _ in _deciding(contents))


def _deciding(contents: Iterable[FileContent]) -> Iterator[ConfigObject]:
    for content in contents:
        for item in content.objects:
            if isinstance(item.spec, MeshConfigSpec) or (
                item.kind == NAMESPACE.name and not item.group
            ):
                yield item


def aged(content: FileContent, seniority: Seniority) -> FileContent:
    """Return a content whose objects have the ages that follow from an order of namespaces."""
    objects = tuple(_aged(each, seniority) for each in content.objects)
    if all(one is other for one, other in zip(objects, content.objects, strict=True)):
        return content
    return replace(content, objects=objects)


def _aged(item: ConfigObject, seniority: Seniority) -> ConfigObject:
    age = seniority.age(item.namespace, date_of(item.created))
    return item if age == item.created else replace(item, created=age)


def dated_namespaces(contents: Iterable[FileContent]) -> frozenset[str]:
    """Return the namespaces with dated objects of kinds that compete between namespaces."""
    return frozenset(
        item.namespace
        for content in contents
        for item in content.objects
        if item.kind in _SHARED and date_of(item.created)
    )


def dates_without_effect(contents: Iterable[FileContent]) -> Problem | None:
    """Return the note that dates have no effect between namespaces, if two namespaces have some."""
    first: ConfigObject | None = None
    for content in contents:
        for item in content.objects:
            if item.kind in _SHARED and date_of(item.created):
                if first is not None and first.namespace != item.namespace:
                    return item.problem(
                        ("metadata", "creationTimestamp"),
                        f"is compared with that of objects of {item.namespace} only, as in other "
                        f"namespaces ({first.place}): between namespaces the root "
                        "namespace comes first, then the one whose Namespace object is older, then "
                        "the first by name; --believe-timestamps believes all",
                    )
                first = first or item
    return None
