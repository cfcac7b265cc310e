"""Access loggers of listeners: none unless the mesh config names a file."""

import json

from google.protobuf import struct_pb2

from mesh_discovery.config.kinds.mesh_config._spec import LogEncoding, MeshConfigSpec
from mesh_discovery.generate._messages import (
    accesslog_pb2,
    base_pb2,
    file_pb2,
    packed,
    stream_pb2,
    substitution_format_string_pb2,
)


def access_logs(mesh: MeshConfigSpec) -> list[accesslog_pb2.AccessLog]:
    """Return the loggers for a listener's filters: one or none."""
    if not mesh.access_log_file:
        return []
    # Opened as a file, the standard streams fail when they are sockets, as a supervisor's may be.
    form = _format(mesh)
    config: stream_pb2.StdoutAccessLog | stream_pb2.StderrAccessLog | file_pb2.FileAccessLog
    match mesh.access_log_file:
        case "/dev/stdout":
            name, config = (
                "envoy.access_loggers.stdout",
                stream_pb2.StdoutAccessLog(log_format=form),
            )
        case "/dev/stderr":
            name, config = (
                "envoy.access_loggers.stderr",
                stream_pb2.StderrAccessLog(log_format=form),
            )
        case path:
            name = "envoy.access_loggers.file"
            config = file_pb2.FileAccessLog(path=path, log_format=form)
    return [accesslog_pb2.AccessLog(name=name, typed_config=packed(config))]


def refused_connection_logs(mesh: MeshConfigSpec) -> list[accesslog_pb2.AccessLog]:
    """Return the loggers of a listener itself, for connections that no filter chain takes."""
    found = access_logs(mesh)
    for each in found:
        each.filter.response_flag_filter.flags.append("NR")
    return found


_JSON_FIELDS = {
    "start_time": "%START_TIME%",
    "method": "%REQ(:METHOD)%",
    "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
    "protocol": "%PROTOCOL%",
    "response_code": "%RESPONSE_CODE%",
    "response_flags": "%RESPONSE_FLAGS%",
    "bytes_received": "%BYTES_RECEIVED%",
    "bytes_sent": "%BYTES_SENT%",
    "duration": "%DURATION%",
    "authority": "%REQ(:AUTHORITY)%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "upstream_cluster": "%UPSTREAM_CLUSTER%",
    "upstream_host": "%UPSTREAM_HOST%",
    "downstream_remote_address": "%DOWNSTREAM_REMOTE_ADDRESS%",
    "downstream_peer_uri_san": "%DOWNSTREAM_PEER_URI_SAN%",
}


def _format(
    mesh: MeshConfigSpec,
) -> substitution_format_string_pb2.SubstitutionFormatString | None:
    make = substitution_format_string_pb2.SubstitutionFormatString
    if mesh.access_log_encoding is LogEncoding.JSON:
        struct = struct_pb2.Struct()
        struct.update(
            json.loads(mesh.access_log_format) if mesh.access_log_format else _JSON_FIELDS
        )
        return make(json_format=struct)
    if mesh.access_log_format:
        return make(text_format_source=base_pb2.DataSource(inline_string=mesh.access_log_format))
    return None
