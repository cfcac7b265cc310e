"""The issuers whose tokens a proxy looks at."""

from collections.abc import Callable

from envoy_config.plan.policies._tokens import NO_TOKENS, tokens_of
from mesh_model import NO_KEY_SETS, KeySets, KeySource, MeshModel, Workload

Build = Callable[..., MeshModel]
KEYS = "https://keys.example/keys"


def document(name: str, namespace: str, spec: str) -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: RequestAuthentication\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n"
    )


def rules(*issuers: str) -> str:
    each = ", ".join(f"{{issuer: {issuer}, jwksUri: {KEYS}}}" for issuer in issuers)
    return f"jwtRules: [{each}]"


def test_issuers_of_all_objects_for_a_workload_are_tried_in_the_order_of_their_names(
    model_of: Build,
) -> None:
    model = model_of(
        document("one", "a", f"{{{rules('https://d', 'https://b')}}}"),
        document("web", "a", f"{{selector: {{matchLabels: {{app: web}}}}, {rules('https://c')}}}"),
        document("all", "istio-system", f"{{{rules('https://a')}}}"),
        document("other", "b", f"{{{rules('https://x')}}}"),
    )

    def issuers(workload: Workload) -> list[str]:
        return [each.rule.issuer for each in tokens_of(workload, model).issuers]

    assert issuers(Workload("a", (("app", "web"),))) == [
        "https://a",
        "https://b",
        "https://c",
        "https://d",
    ]
    assert issuers(Workload("a")) == ["https://a", "https://b", "https://d"]
    assert issuers(Workload("c")) == ["https://a"]


def test_keys_are_part_of_what_is_compared(model_of: Build) -> None:
    text = document("one", "a", f"{{{rules('https://a')}}}")
    before = tokens_of(Workload("a"), model_of(text))
    (issuer,) = before.issuers
    assert issuer.keys == NO_KEY_SETS.get(issuer.rule)
    fetched = KeySets({KeySource(KEYS): "keys"})
    after = tokens_of(Workload("a"), model_of(text, key_sets=fetched))
    assert [each.keys for each in after.issuers] == ["keys"]
    assert before != after
    assert hash(after) == hash(tokens_of(Workload("a"), model_of(text, key_sets=fetched)))


def test_without_objects_no_token_is_looked_at(model_of: Build) -> None:
    assert tokens_of(Workload("a"), model_of()) == NO_TOKENS
