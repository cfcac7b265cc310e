"""Changes of headers, on routes and on weighted clusters."""

from collections.abc import Iterator, Mapping

from envoy_config.generate._messages import base_pb2, route_components_pb2
from istio_config.kinds.virtual_service import Headers, names_authority

_Option = base_pb2.HeaderValueOption


def change_headers(
    message: route_components_pb2.Route | route_components_pb2.WeightedCluster.ClusterWeight,
    headers: Headers | None,
) -> None:
    """Add changes to a route or to one of its clusters; what sets the authority is left out."""
    if headers is None:
        return
    if headers.request is not None:
        message.request_headers_to_add.extend(_added(headers.request.set, headers.request.add))
        message.request_headers_to_remove.extend(_removed(headers.request.remove))
    if headers.response is not None:
        message.response_headers_to_add.extend(_added(headers.response.set, headers.response.add))
        message.response_headers_to_remove.extend(_removed(headers.response.remove))


def authority_of(headers: Headers | None) -> str:
    """Return the authority that changes of a request's headers set; empty: none."""
    if headers is None or headers.request is None:
        return ""
    for values in (headers.request.set, headers.request.add):
        for name, value in sorted(values.items()):
            if names_authority(name):
                return value
    return ""


def _added(
    overwritten: Mapping[str, str], appended: Mapping[str, str]
) -> Iterator[base_pb2.HeaderValueOption]:
    action = _Option.HeaderAppendAction
    yield from _options(overwritten, action.OVERWRITE_IF_EXISTS_OR_ADD)
    yield from _options(appended, action.APPEND_IF_EXISTS_OR_ADD)


def _options(
    values: Mapping[str, str], action: "base_pb2.HeaderValueOption.HeaderAppendAction.ValueType"
) -> Iterator[base_pb2.HeaderValueOption]:
    for name, value in sorted(values.items()):
        if not name.startswith(":") and not names_authority(name):
            yield _Option(header=base_pb2.HeaderValue(key=name, value=value), append_action=action)


def _removed(names: tuple[str, ...]) -> list[str]:
    return sorted(each for each in names if not each.startswith(":") and not names_authority(each))
