"""A Telemetry is pushed to the proxies of the workloads that it is for, and to no others."""

from pathlib import Path

import pytest

from pushed_meshes import Mesh, router, service, sidecar

LOGS = "accessLogging: [{providers: [{name: envoy}]}]"


def telemetry(spec: str, namespace: str) -> str:
    return (
        "apiVersion: telemetry.istio.io/v1\nkind: Telemetry\n"
        f"metadata: {{name: t, namespace: {namespace}}}\nspec: {{{spec}}}\n"
    )


@pytest.mark.parametrize(
    ("spec", "namespace", "recipients"),
    [
        (LOGS, "a", {"a", "labelled"}),
        (LOGS, "istio-system", {"a", "b", "labelled"}),
        (f"selector: {{matchLabels: {{app: x}}}}, {LOGS}", "a", {"labelled"}),
        (LOGS, "elsewhere", set[str]()),
    ],
)
def test_only_those_that_it_is_for_have_other_listeners(
    spec: str, namespace: str, recipients: set[str], tmp_path: Path
) -> None:
    mesh = Mesh(tmp_path, web=service("web", "10.1.0.1"))
    proxies = {
        "a": sidecar(),
        "b": sidecar("b"),
        "labelled": sidecar(labels={"app": "x"}),
        "router": router("c"),
    }
    mesh.connect(*proxies.values())

    come = mesh.change(logs=telemetry(spec, namespace))

    sent = {name for name, proxy in proxies.items() if "LDS" in come.sent_to(proxy)}
    assert sent - {"router"} == recipients
    assert all(come.sent_to(each) <= {"LDS"} for each in proxies.values())
