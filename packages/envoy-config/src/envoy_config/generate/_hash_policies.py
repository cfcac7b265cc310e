"""Hash policies of routes: how requests to a hashing cluster differ."""

from envoy_config.generate._messages import duration, route_components_pb2
from istio_config.kinds.destination_rule import ConsistentHash

_HashPolicy = route_components_pb2.RouteAction.HashPolicy


def hash_policies(hashing: ConsistentHash | None) -> list[_HashPolicy]:
    """Make the policies of a route that leads to a cluster with these settings; none without."""
    if hashing is None:
        return []
    if hashing.http_header_name:
        header = _HashPolicy.Header(header_name=hashing.http_header_name)
        return [_HashPolicy(header=header)]
    if hashing.http_cookie is not None:
        given = hashing.http_cookie
        cookie = _HashPolicy.Cookie(
            name=given.name,
            path=given.path,
            attributes=[
                _HashPolicy.CookieAttribute(name=each.name, value=each.value)
                for each in given.attributes
            ],
        )
        if given.ttl is not None:
            cookie.ttl.CopyFrom(duration(given.ttl))
        return [_HashPolicy(cookie=cookie)]
    if hashing.use_source_ip:
        properties = _HashPolicy.ConnectionProperties(source_ip=True)
        return [_HashPolicy(connection_properties=properties)]
    if hashing.http_query_parameter_name:
        parameter = _HashPolicy.QueryParameter(name=hashing.http_query_parameter_name)
        return [_HashPolicy(query_parameter=parameter)]
    return []
