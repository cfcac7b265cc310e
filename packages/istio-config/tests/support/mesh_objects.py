"""Objects of a configuration, built without YAML, for tests that need many of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from istio_config._file_content import FileContent
from istio_config._objects import ConfigObject
from istio_config._origins import InFile
from istio_config._snapshot import Snapshot, edited_snapshot, snapshot_of
from istio_config.kinds.kind import Kind
from istio_config.kinds.kubernetes._endpoints import ENDPOINT_SLICE
from istio_config.kinds.kubernetes._pod import POD
from istio_config.kinds.kubernetes._service import KUBERNETES_SERVICE
from istio_config.kinds.service_entry import SERVICE_ENTRY
from istio_config.kinds.workload_entry import WORKLOAD_ENTRY


def object_of(
    kind: Kind[Any],
    name: str,
    spec: Mapping[str, Any],
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    created: str = "",
) -> ConfigObject:
    """Make an object of a kind; spec and status: the fields as YAML has them."""
    return ConfigObject(
        kind=kind.name,
        group=kind.group,
        namespace=namespace,
        name=name,
        spec=msgspec.convert(spec, kind.spec),
        status=msgspec.convert(status, kind.status)
        if status is not None and kind.status is not None
        else None,
        labels=tuple(sorted((labels or {}).items())),
        annotations=tuple(sorted((annotations or {}).items())),
        created=created,
        origin=InFile("objects.yaml", 1),
    )


def service(name: str, namespace: str = "default", **spec: Any) -> ConfigObject:
    """Make a Kubernetes service with one HTTP port."""
    given = {"ports": [{"name": "http", "port": 80, "targetPort": 8080}], **spec}
    return object_of(KUBERNETES_SERVICE, name, given, namespace=namespace)


def slice_of(
    of: str, *addresses: str, name: str = "", namespace: str = "default", pods: bool = False
) -> ConfigObject:
    """Make an EndpointSlice of a service; with `pods`, each endpoint is the pod `p-ADDRESS`."""
    endpoints: list[dict[str, Any]] = [{"addresses": [each]} for each in addresses]
    for each in endpoints if pods else ():
        each["targetRef"] = {"kind": "Pod", "name": f"p-{each['addresses'][0]}"}
    return object_of(
        ENDPOINT_SLICE,
        name or f"{of}-1",
        {"endpoints": endpoints, "ports": [{"name": "http", "port": 8080}]},
        namespace=namespace,
        labels={"kubernetes.io/service-name": of},
    )


def pod(
    address: str,
    labels: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    ready: bool = True,
    phase: str = "Running",
    **spec: Any,
) -> ConfigObject:
    """Make the pod `p-ADDRESS`."""
    ports = [{"name": "web", "containerPort": 8081}]
    return object_of(
        POD,
        f"p-{address}",
        {"containers": [{"name": "app", "ports": ports}], "serviceAccountName": "app", **spec},
        namespace=namespace,
        labels=labels,
        status={
            "phase": phase,
            "podIP": address,
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    )


def service_entry(
    name: str, *hosts: str, namespace: str = "default", created: str = "", **spec: Any
) -> ConfigObject:
    """Make a ServiceEntry with one HTTP port."""
    given = {
        "hosts": hosts,
        "ports": [{"number": 80, "name": "http", "protocol": "HTTP", "targetPort": 8080}],
        "resolution": "STATIC",
        **spec,
    }
    return object_of(SERVICE_ENTRY, name, given, namespace=namespace, created=created)


def workload_entry(
    name: str, address: str, *, namespace: str = "default", **spec: Any
) -> ConfigObject:
    """Make a WorkloadEntry."""
    return object_of(WORKLOAD_ENTRY, name, {"address": address, **spec}, namespace=namespace)


def snapshot(objects: Iterable[ConfigObject], *, before: Snapshot | None = None) -> Snapshot:
    """Make a snapshot of objects."""
    return snapshot_of([FileContent(objects=tuple(objects))], before=before)


def edited(
    before: Snapshot, gone: Sequence[ConfigObject], come: Sequence[ConfigObject]
) -> Snapshot:
    """Make the snapshot after some objects went and others came."""
    found = edited_snapshot(
        before, [FileContent(objects=tuple(gone))], [FileContent(objects=tuple(come))]
    )
    assert found is not None
    return found
