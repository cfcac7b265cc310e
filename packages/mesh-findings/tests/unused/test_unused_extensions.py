"""Extensions whose modules can't be pulled are reported."""

from collections.abc import Callable

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
