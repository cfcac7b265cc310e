"""Istio's own metadata of clusters and routes: the services and the rules that they come from."""

from collections.abc import Iterable, Mapping

from envoy_config.generate._messages import base_pb2, struct, struct_pb2
from envoy_config.plan._workload_metadata import METRICS_KEY
from mesh_model import Service

Value = str | int | bool | list[Mapping[str, str]]


def config_path(kind: str, namespace: str, name: str, *, group: str = "networking.istio.io") -> str:
    """Return the path of an object; kind: with hyphens, as in `virtual-service`."""
    return f"/apis/{group}/v1/namespaces/{namespace}/{kind}/{name}"


def service_metadata(service: Service) -> Mapping[str, str]:
    """Return a service as one of the list `services`."""
    return {"host": service.host, "name": service.name, "namespace": service.namespace}


def istio_metadata(fields: Iterable[tuple[str, Value]]) -> base_pb2.Metadata:
    """Make metadata of Istio's filter key."""
    filled = struct_pb2.Struct(fields={key: _value(value) for key, value in fields})
    return base_pb2.Metadata(filter_metadata={"istio": filled})


def add_metric_fields(metadata: base_pb2.Metadata, fields: Iterable[tuple[str, str]]) -> None:
    """Add what tags of metrics are built from."""
    metadata.filter_metadata[METRICS_KEY].CopyFrom(struct(fields))


def service_fields(service: Service) -> Iterable[tuple[str, str]]:
    """Return a service as tags of metrics have it."""
    return service_metadata(service).items()


def _value(value: Value) -> struct_pb2.Value:
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    if isinstance(value, int):
        return struct_pb2.Value(number_value=value)
    items = [
        struct_pb2.Value(
            struct_value=struct_pb2.Struct(
                fields={key: struct_pb2.Value(string_value=text) for key, text in item.items()}
            )
        )
        for item in value
    ]
    return struct_pb2.Value(list_value=struct_pb2.ListValue(values=items))
