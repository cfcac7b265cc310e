"""Which access logs a proxy writes, by Telemetry objects or else by mesh config."""

import json
from collections.abc import Sequence
from typing import assert_never

from envoy_config.plan._provider_services import provider_service
from envoy_config.plan.resolved._telemetry import (
    AccessLog,
    FileTarget,
    JsonLine,
    OtelTarget,
    ServiceTarget,
    SideTelemetry,
    Target,
    TextLine,
)
from envoy_config.plan.telemetry._levels import is_about
from envoy_config.plan.telemetry._providers import BUILT_IN_LOG, providers_of
from istio_config.kinds.mesh_config import LogEncoding, MeshConfigSpec
from istio_config.kinds.mesh_config.providers import (
    FileLog,
    HttpLogService,
    Logger,
    OtelLogService,
    TcpLogService,
)
from istio_config.kinds.telemetry import AccessLogging, TelemetrySpec, WorkloadMode
from mesh_model import MeshModel

STANDARD_OUTPUT = "/dev/stdout"
BOOTSTRAP_SERVICE = "envoy_accesslog_service"
"""The cluster of the service in a proxy's bootstrap (ProxyConfig's `envoyAccessLogService`)."""


def logs_of(
    levels: Sequence[TelemetrySpec], mode: WorkloadMode, namespace: str, model: MeshModel
) -> SideTelemetry:
    """Return the logs for one side of a proxy, sorted by the names of their providers.

    namespace: the proxy's. It logs to services that are exported there.
    """
    mesh = model.mesh_config
    defaults = mesh.default_providers.access_logging
    if not defaults and not any(each.access_logging for each in levels):
        return mesh_logs(mesh)
    wanted = wanted_logs(levels, mode, defaults)
    logs = tuple(
        AccessLog(target, expression)
        for name, expression in sorted(wanted.items())
        if (target := _target(name, namespace, model)) is not None
    )
    return SideTelemetry(of_requests=logs, of_connections=logs)


def mesh_logs(mesh: MeshConfigSpec) -> SideTelemetry:
    """Return the logs that mesh config asks for by itself: a file, and the bootstrap's service."""
    requests: list[AccessLog] = []
    connections: list[AccessLog] = []
    if mesh.access_log_file:
        log = AccessLog(_mesh_file(mesh, mesh.access_log_file))
        requests.append(log)
        connections.append(log)
    if mesh.enable_envoy_access_log_service:
        requests.append(AccessLog(ServiceTarget(BOOTSTRAP_SERVICE)))
        connections.append(AccessLog(ServiceTarget(BOOTSTRAP_SERVICE, of_requests=False)))
    return SideTelemetry(tuple(requests), tuple(connections))


def wanted_logs(
    levels: Sequence[TelemetrySpec], mode: WorkloadMode, defaults: Sequence[str]
) -> dict[str, str]:
    """Return the names of providers that log, in small letters, with the expression of each.

    The last level that names providers decides which are in use; of each, the last entry about it
    decides whether it logs, and what. An entry that names none is about those of the one before.
    """
    by_level = [
        [each for each in level.access_logging if is_about(each.match, mode)] for level in levels
    ]
    in_use = _names(defaults)
    for entries in by_level:
        named = frozenset(name for each in entries for name in _named(each))
        in_use = named or in_use
    found: dict[str, str] = {} if any(by_level) else dict.fromkeys(in_use, "")
    parent = _names(defaults)
    for entries in by_level:
        for each in entries:
            parent = _named(each) or parent
            for name in parent & in_use:
                if each.disabled:
                    found.pop(name, None)
                else:
                    found[name] = each.filter.expression if each.filter is not None else ""
    return found


def _named(entry: AccessLogging) -> frozenset[str]:
    return _names([each.name for each in entry.providers])


def _names(given: Sequence[str]) -> frozenset[str]:
    return frozenset(each.lower() for each in given)


def _target(name: str, namespace: str, model: MeshModel) -> Target | None:
    """Return where a provider logs; None if it is no logger, or its service is not there.

    namespace: that from which the service is seen.
    """
    provider = providers_of(model.mesh_config).get(name)
    if provider is None:
        is_built_in = name == BUILT_IN_LOG
        return _mesh_file(model.mesh_config, STANDARD_OUTPUT) if is_built_in else None
    logger = provider.logger
    if logger is None:
        return None
    return _of_logger(logger, namespace, model)


def _of_logger(logger: Logger, namespace: str, model: MeshModel) -> Target | None:
    if isinstance(logger, FileLog):
        return _file(logger)
    service = provider_service(logger.service, logger.port, model)
    if service is None or not model.by_key[service.key].visible_in(namespace):
        return None
    match logger:
        case HttpLogService():
            return ServiceTarget(
                cluster=service.cluster,
                authority=service.authority,
                log_name=logger.log_name,
                filter_state=logger.filter_state_objects_to_log,
                request_headers=logger.additional_request_headers_to_log,
                response_headers=logger.additional_response_headers_to_log,
                response_trailers=logger.additional_response_trailers_to_log,
            )
        case TcpLogService():
            return ServiceTarget(
                cluster=service.cluster,
                authority=service.authority,
                of_requests=False,
                log_name=logger.log_name,
                filter_state=logger.filter_state_objects_to_log,
            )
        case OtelLogService(log_format=log_format):
            return OtelTarget(
                cluster=service.cluster,
                authority=service.authority,
                log_name=logger.log_name,
                text=log_format.text if log_format is not None else "",
                labels=_json(log_format.labels) if log_format is not None else "",
            )
        case _:
            assert_never(logger)


def _file(log: FileLog) -> FileTarget:
    line: TextLine | JsonLine = TextLine()
    given = log.log_format
    if given is not None and given.labels is not None:
        line = JsonLine(_json(given.labels))
    elif given is not None and given.text:
        line = TextLine(given.text)
    return FileTarget(log.path or STANDARD_OUTPUT, line, log.omit_empty_values)


def _mesh_file(mesh: MeshConfigSpec, path: str) -> FileTarget:
    if mesh.access_log_encoding is LogEncoding.JSON:
        return FileTarget(path, JsonLine(mesh.access_log_format))
    return FileTarget(path, TextLine(mesh.access_log_format))


def _json(fields: dict[str, object]) -> str:
    return json.dumps(fields) if fields else ""
