"""Extensions whose modules can't be pulled are reported."""

from collections.abc import Callable

from istio_config.kinds.traffic_extension import MOST_EXTENSIONS
from mesh_findings import review
from mesh_model import MeshModel

Build = Callable[..., MeshModel]
PULLED = "url: registry.example/plugin:v1, imagePullSecret: registry"


def plugin(spec: str) -> str:
    return (
        "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\n"
        f"metadata: {{name: p, namespace: default}}\nspec: {{{spec}}}\n"
    )


def docker(namespace: str = "default") -> str:
    return (
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: registry, namespace: {namespace}}}\n"
        "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{}'}\n"
    )


def test_a_module_whose_secret_is_missing_is_reported(model_of: Build) -> None:
    def reported(*documents: str) -> list[str]:
        return [str(each) for each in review(model_of(*documents)).problems]

    (said,) = reported(plugin(PULLED))
    assert "spec.imagePullSecret: there is no Secret registry of type kubernetes.io/docker" in said
    assert said.endswith("the module is not pulled, and traffic is refused")
    (said,) = reported(plugin(PULLED + ", failStrategy: FAIL_OPEN"), docker("other"))
    assert said.endswith("traffic passes without it")
    assert reported(plugin(PULLED), docker()) == []
    assert reported(plugin("url: 'https://a.example/p', imagePullSecret: registry")) == []


def test_an_extension_that_a_hundred_older_ones_leave_no_room_for_is_reported(
    model_of: Build,
) -> None:
    def extension(number: int, spec: str = "") -> str:
        return (
            "apiVersion: extensions.istio.io/v1alpha1\nkind: TrafficExtension\n"
            f"metadata: {{name: e{number:03}, namespace: default}}\n"
            f"spec: {{{spec}lua: {{inlineCode: 'function envoy_on_request(h) end'}}}}\n"
        )

    def reported(*documents: str) -> list[str]:
        return [str(each) for each in review(model_of(*documents)).problems]

    web = "selector: {matchLabels: {app: web}}, "
    most = [extension(number) for number in range(MOST_EXTENSIONS)]
    assert reported(*most) == []
    (said,) = reported(*most, extension(MOST_EXTENSIONS))
    assert f"default has {MOST_EXTENSIONS} older extensions for all the workloads" in said
    assert "all.yaml:501: metadata.name: " in said  # the last of the 101
    # Those that select others leave room; those that select the same, or all, do not.
    some = [extension(number, web) for number in range(MOST_EXTENSIONS)]
    assert reported(*some, extension(MOST_EXTENSIONS)) == []
    (said,) = reported(*some[:50], *most[50:], extension(MOST_EXTENSIONS, web))
    assert "it acts at none" in said
    for_waypoints = "targetRefs: [{kind: Service, name: web}], "
    assert not any("older" in each for each in reported(*most, extension(200, for_waypoints)))
