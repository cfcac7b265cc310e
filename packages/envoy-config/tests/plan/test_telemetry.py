"""The logs of a proxy, by Telemetry objects of the mesh, of namespaces and workloads."""

import pytest

from envoy_config.plan.resolved._telemetry import (
    AccessLog,
    FileTarget,
    JsonLine,
    OtelTarget,
    ServiceTarget,
    TextLine,
)
from envoy_config.plan.telemetry._access_logs import mesh_logs
from envoy_config.plan.telemetry._telemetry import settings_of
from istio_config.kinds.telemetry import WorkloadMode
from mesh_model import MeshModel
from telemetry_objects import ALS, ROOT, SERVICE, Build, found, mesh, proxy, telemetry


def logged(model: MeshModel, mode: str) -> dict[str, str]:
    """Return the files that one side logs to, with the expressions."""
    telemetry = found(model)
    assert telemetry is not None
    side = telemetry.client if mode == WorkloadMode.CLIENT else telemetry.server
    assert side.of_requests == side.of_connections
    return {
        each.target.path: each.expression
        for each in side.of_requests
        if isinstance(each.target, FileTarget)
    }


SIDES = (
    "accessLogging: [{match: {mode: SERVER}, providers: [{name: files}]},"
    " {match: {mode: CLIENT}, providers: [{name: others}]}]"
)
A, B = "/var/log/a", "/var/log/b"


@pytest.mark.parametrize(
    ("objects", "client", "server"),
    [
        ([("accessLogging: [{providers: [{name: files}]}]", ROOT, "")], {A: ""}, {A: ""}),
        ([("accessLogging: [{providers: [{name: FILES}]}]", ROOT, "")], {A: ""}, {A: ""}),
        ([("accessLogging: [{providers: [{name: files}]}]", "other", "")], None, None),
        ([("accessLogging: [{providers: [{name: files}]}]", ROOT, "{app: w}")], None, None),
        ([("accessLogging: [{}]", "default", "")], {}, {}),
        (
            # The last level that names providers decides which are in use.
            [
                ("accessLogging: [{providers: [{name: files}]}]", ROOT, ""),
                ("accessLogging: [{providers: [{name: others}]}]", "default", ""),
            ],
            {B: ""},
            {B: ""},
        ),
        (
            # One without providers is about those of the one before.
            [
                ("accessLogging: [{providers: [{name: files}]}]", ROOT, ""),
                ("accessLogging: [{filter: {expression: 'true'}}]", "default", ""),
            ],
            {A: "true"},
            {A: "true"},
        ),
        (
            [
                ("accessLogging: [{providers: [{name: files}]}]", ROOT, ""),
                ("accessLogging: [{disabled: true}]", "default", ""),
            ],
            {},
            {},
        ),
        (
            # A workload's own comes last, whatever its name.
            [
                ("accessLogging: [{providers: [{name: files}]}]", ROOT, ""),
                ("accessLogging: [{disabled: true}]", "default", ""),
                ("accessLogging: [{disabled: false}]", "default", "{app: w}"),
            ],
            {A: ""},
            {A: ""},
        ),
        (
            # All that choose a workload are taken, the oldest first.
            [
                ("accessLogging: [{providers: [{name: files}]}]", "default", "{app: w}"),
                ("accessLogging: [{disabled: true, match: {mode: CLIENT}}]", "default", "{app: w}"),
            ],
            {},
            {A: ""},
        ),
        (
            # Only the oldest for a whole namespace is taken.
            [
                ("accessLogging: [{providers: [{name: files}]}]", "default", ""),
                ("accessLogging: [{disabled: true}]", "default", ""),
            ],
            {A: ""},
            {A: ""},
        ),
        (
            [
                (
                    SIDES,
                    "default",
                    "",
                )
            ],
            {B: ""},
            {A: ""},
        ),
        (
            # In one level, a provider that is out of use for the other mode stays so.
            [
                ("accessLogging: [{providers: [{name: files}, {name: others}]}]", ROOT, ""),
                (
                    "accessLogging: [{match: {mode: SERVER}, disabled: true}]",
                    "default",
                    "",
                ),
            ],
            {A: "", B: ""},
            {},
        ),
    ],
)
def test_the_last_word_on_logs_is_that_of_the_narrowest_level(
    objects: list[tuple[str, str, str]],
    client: dict[str, str] | None,
    server: dict[str, str] | None,
    model_of: Build,
) -> None:
    texts = [
        telemetry(f"t{index}", spec, namespace, labels)
        for index, (spec, namespace, labels) in enumerate(objects)
    ]
    model = model_of(SERVICE + mesh() + "".join(texts))

    if client is None or server is None:
        assert found(model) is None
        return
    assert logged(model, "CLIENT") == client
    assert logged(model, "SERVER") == server


def test_default_providers_log_where_no_object_names_any(model_of: Build) -> None:
    defaults = mesh(defaultProviders={"accessLogging": ["files"]})
    filtered = telemetry("t", "accessLogging: [{filter: {expression: 'true'}}]")

    assert logged(model_of(SERVICE + defaults), "CLIENT") == {A: ""}
    assert logged(model_of(SERVICE + defaults + filtered), "CLIENT") == {A: "true"}


def test_each_provider_is_resolved_and_they_are_sorted_by_name(model_of: Build) -> None:
    names = [
        "connections",
        "envoy",
        "files",
        "labels",
        "lost",
        "none",
        "others",
        "records",
        "requests",
        "zipkin",
    ]
    named = ", ".join(f"{{name: {each}}}" for each in names)
    own = telemetry("t", f"accessLogging: [{{providers: [{named}]}}]")
    config = mesh(accessLogEncoding="JSON")

    telemetry_found = found(model_of(SERVICE + config + own))

    assert telemetry_found is not None
    assert [each.target for each in telemetry_found.server.of_requests] == [
        ServiceTarget(ALS.cluster, ALS.authority, of_requests=False),
        FileTarget("/dev/stdout", JsonLine()),
        FileTarget(A, TextLine()),
        FileTarget("/dev/stdout", JsonLine('{"a": "%PROTOCOL%"}')),
        FileTarget(B, TextLine("%PROTOCOL%"), omits_empty=True),
        OtelTarget(ALS.cluster, ALS.authority, text="t", labels='{"a": "b"}'),
        ServiceTarget(ALS.cluster, ALS.authority, log_name="l"),
    ]


def test_a_mesh_without_telemetry_costs_nothing_and_logs_as_mesh_config_says(
    model_of: Build,
) -> None:
    model = model_of(SERVICE + mesh(accessLogFile=A, enableEnvoyAccessLogService=True))

    def known() -> dict[str, object]:
        raise AssertionError

    settings = settings_of(proxy(), model, known)  # type: ignore[arg-type]

    assert settings.telemetry is None
    logs = mesh_logs(model.mesh_config)
    service = "envoy_accesslog_service"
    assert logs.of_requests == (AccessLog(FileTarget(A)), AccessLog(ServiceTarget(service)))
    assert logs.of_connections == (
        AccessLog(FileTarget(A)),
        AccessLog(ServiceTarget(service, of_requests=False)),
    )
