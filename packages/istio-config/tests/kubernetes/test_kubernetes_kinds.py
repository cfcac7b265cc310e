"""Objects of Kubernetes are read leniently; a mistake in a field that is read is reported."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from istio_config import read_folder

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n"
SLICE = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1, labels: "
OF_WEB = "{kubernetes.io/service-name: web}}\n"
ENDPOINTS = "apiVersion: v1\nkind: Endpoints\nmetadata: {name: web}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1}\nspec:\n"

MISTAKES = {
    "type": (
        SERVICE + "  type: ClusterIp\n",
        (
            "5: spec.type: expected one of ClusterIP, NodePort, LoadBalancer, ExternalName, found "
            'the text "ClusterIp"'
        ),
    ),
    "address": (
        SERVICE + "  clusterIP: ten\n",
        '5: spec.clusterIP: "ten" is not an IP address; a headless service has None',
    ),
    "further address": (
        SERVICE + "  clusterIP: 10.0.0.1\n  clusterIPs: [10.0.0.1, x]\n",
        '6: spec.clusterIPs[1]: "x" is not an IP address; a headless service has None',
    ),
    "external name": (
        SERVICE + "  type: ExternalName\n  externalName: a b\n",
        '6: spec.externalName: "a b" is not a host name',
    ),
    "no external name": (
        SERVICE + "  type: ExternalName\n",
        "4: spec.externalName: is missing: a service of type ExternalName leads to that host",
    ),
    "port": (
        SERVICE + "  ports:\n  - {port: 0}\n",
        "6: spec.ports[0].port: expected a number from 1 to 65535, found 0",
    ),
    "port twice": (
        SERVICE + "  ports:\n  - {port: 80, name: a}\n  - {port: 80, name: b}\n",
        "7: spec.ports[1].port: the port 80 is given twice",
    ),
    "port without a name": (
        SERVICE + "  ports:\n  - {port: 80, name: a}\n  - {port: 81}\n",
        "7: spec.ports[1]: has no name, which it needs beside other ports",
    ),
    "target port": (
        SERVICE + "  ports:\n  - {port: 80, targetPort: 80.5}\n",
        "6: spec.ports[0].targetPort: is neither a number nor the name of a port",
    ),
    "target port too high": (
        SERVICE + "  ports:\n  - {port: 80, targetPort: 70000}\n",
        "6: spec.ports[0].targetPort: 70000 is not a port; it is from 1 to 65535",
    ),
    "selector": (
        SERVICE + "  selector: {app: 1}\n",
        "5: spec.selector.app: expected text, found the number 1; put it in quotes",
    ),
    "address of a slice": (
        SLICE + OF_WEB + "addressType: IPv4\nendpoints:\n- addresses: [web.a]\n",
        '6: endpoints[0].addresses[0]: "web.a" is not an IP address',
    ),
    "type of a slice": (
        SLICE + OF_WEB + "addressType: IPV4\n",
        '4: addressType: expected one of IPv4, IPv6, FQDN, found the text "IPV4"',
    ),
    "address of Endpoints": (
        ENDPOINTS + "subsets:\n- addresses:\n  - {ip: one}\n",
        '6: subsets[0].addresses[0].ip: "one" is not an IP address',
    ),
    "service account": (
        POD + "  serviceAccountName: a/b\n",
        "5: spec.serviceAccountName: service account 'a/b' must be of a-z A-Z 0-9 . _ -",
    ),
}


def said(config_dir: Path, text: str) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    file = config_dir / "all.yaml"
    file.write_text(text)
    read = read_folder(config_dir)
    found = read.problems, read.warnings, read.notes
    problems, warnings, notes = (
        [str(each).removeprefix(f"{file}:") for each in items] for items in found
    )
    return problems, warnings, notes


@pytest.mark.parametrize(("text", "wanted"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_field_that_is_read_is_reported(
    text: str, wanted: str, config_dir: Path
) -> None:
    problems, _, _ = said(config_dir, text)

    assert [each[: len(wanted)] for each in problems] == [wanted]


def test_fields_that_mean_nothing_to_a_mesh_are_let_pass(config_dir: Path) -> None:
    text = SERVICE + "  healthCheckNodePort: 1\n  sessionAffinityConfig: {clientIP: {}}\n"

    assert said(config_dir, text) == ([], [], [])


def test_a_slice_of_no_service_is_warned_of(config_dir: Path) -> None:
    _, warnings, _ = said(config_dir, SLICE + "{a: b}}\naddressType: IPv4\n")

    assert warnings == [
        (
            "3: metadata.labels: kubernetes.io/service-name is missing: the endpoints belong to no "
            "service"
        )
    ]


ANNOTATED = SERVICE.replace("name: web", "name: web, annotations: {%s}")
WARNINGS = {
    "exportTo": (
        ANNOTATED % "networking.istio.io/exportTo: 'a,a'" + "  clusterIP: 10.0.0.1\n",
        '4: spec: the annotation networking.istio.io/exportTo: "a" is given twice',
    ),
    "distribution": (
        ANNOTATED % "networking.istio.io/traffic-distribution: Near" + "  clusterIP: 10.0.0.1\n",
        "4: spec: the annotation networking.istio.io/traffic-distribution has no effect: expected",
    ),
    "accounts": (
        ANNOTATED % "alpha.istio.io/canonical-serviceaccounts: a" + "  clusterIP: 10.0.0.1\n",
        "4: spec: the annotation alpha.istio.io/canonical-serviceaccounts has no effect",
    ),
    "affinity": (
        SERVICE + "  sessionAffinity: ClientIP\n",
        "5: spec.sessionAffinity: ClientIP has no effect on proxies; use consistentHash",
    ),
    "names in a slice": (
        SLICE + OF_WEB + "addressType: FQDN\nendpoints:\n- addresses: [a.test]\n",
        "4: addressType: FQDN has no effect: proxies are sent IP addresses",
    ),
}


@pytest.mark.parametrize(("text", "wanted"), WARNINGS.values(), ids=WARNINGS)
def test_a_choice_without_effect_is_warned_of(text: str, wanted: str, config_dir: Path) -> None:
    problems, warnings, _ = said(config_dir, text)

    assert not problems
    assert [each[: len(wanted)] for each in warnings] == [wanted]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "CronJob"),
        ("v1", "PersistentVolumeClaim"),
        ("serving.knative.dev/v1", "Service"),
        ("monitoring.coreos.com/v1", "ServiceMonitor"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
    ],
)
def test_objects_that_mean_nothing_to_a_mesh_are_reported_once_a_kind(
    api_version: str, kind: str, config_dir: Path
) -> None:
    text = "---\n".join(
        f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}}}\n" for name in "abc"
    )
    problems, _, (note,) = said(config_dir, text)

    assert not problems
    assert note.startswith(f"2: kind: {kind}")


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("networking.isto.io/v1", "VirtualService"),
        ("networking.istio.io/v1", "VirtualServices"),
        ("v1", "Servise"),
        ("v2", "Pod"),
    ],
)
def test_a_misspelt_kind_of_a_mesh_is_a_mistake(
    api_version: str, kind: str, config_dir: Path
) -> None:
    problems, _, _ = said(
        config_dir, f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n"
    )

    assert problems
