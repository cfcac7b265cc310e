"""BackendTLSPolicies are translated to DestinationRules for the hosts of their targets."""

from pathlib import Path

import pytest

from istio_config import read_folder
from istio_config.kinds.destination_rule import ClientTls, ClientTlsMode, DestinationRuleSpec
from mesh_model._model import Facts, MeshModel, build_model
from mesh_testkit.certificates import Authority

OBJECTS = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80}, {name: https, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: old, namespace: shop}
spec: {type: ExternalName, externalName: web.shop.svc.cluster.local}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: banks, namespace: shop}
spec:
  hosts: [one.example, two.example]
  ports: [{number: 443, name: tls, protocol: TLS}]
  resolution: DNS
"""
HOST = "web.shop.svc.cluster.local"
WEB = "{group: '', kind: Service, name: web}"
ROOTS = "caCertificateRefs: [{group: '', kind: ConfigMap, name: roots}]"


def policy(
    targets: str = WEB,
    validation: str = ROOTS,
    *,
    name: str = "p",
    created: str = "2026-01-01T00:00:00Z",
    meta: str = "",
) -> str:
    return f"""
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {{name: {name}, namespace: shop, creationTimestamp: {created!r}, {meta}}}
spec: {{targetRefs: [{targets}], validation: {{hostname: {name}.example, {validation}}}}}
"""


def config_map(content: str) -> str:
    lines = "".join(f"    {line}\n" for line in content.splitlines())
    head = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: roots, namespace: shop}\n"
    return f"{head}data:\n  ca.crt: |\n{lines}"


GOOD = config_map(Authority().root_pem.decode())


def model_of(folder: Path, text: str, before: MeshModel | None = None) -> MeshModel:
    (folder / "mesh.yaml").write_text(OBJECTS + text)
    read = read_folder(folder)
    assert read.problems == ()
    return build_model(Facts(snapshot=read.snapshot), before=before)


def rules(model: MeshModel) -> dict[str, DestinationRuleSpec]:
    return {each.host: each.spec for each in model.destination_rules.rules}


def tls(name: str = "p", credential: str = "configmap://shop/roots") -> ClientTls:
    return ClientTls(
        mode=ClientTlsMode.SIMPLE,
        sni=f"{name}.example",
        subject_alt_names=(f"{name}.example",),
        credential_name=credential,
    )


def test_a_service_is_spoken_to_in_tls_by_the_roots_of_a_config_map(tmp_path: Path) -> None:
    model = model_of(tmp_path, GOOD + policy())

    (rule,) = rules(model).values()
    assert rule.traffic_policy is not None
    assert (list(rules(model)), rule.traffic_policy.tls) == ([HOST], tls())
    assert rule.export_to == ("*",)
    assert model.warnings == ()


def test_the_roots_of_the_system_need_no_config_map(tmp_path: Path) -> None:
    model = model_of(tmp_path, policy(validation="wellKnownCACertificates: System"))
    (rule,) = rules(model).values()
    assert rule.traffic_policy is not None
    assert rule.traffic_policy.tls == tls(credential="")
    assert model.warnings == ()


def test_other_names_of_the_certificate_count_instead_of_the_hostname(tmp_path: Path) -> None:
    names = "subjectAltNames: [{type: Hostname, hostname: a.example}, {type: URI, uri: 'b:c'}]"
    (rule,) = rules(model_of(tmp_path, GOOD + policy(validation=f"{ROOTS}, {names}"))).values()
    assert rule.traffic_policy is not None
    assert rule.traffic_policy.tls is not None
    assert rule.traffic_policy.tls.subject_alt_names == ("a.example", "b:c")
    assert rule.traffic_policy.tls.sni == "p.example"


def test_a_section_is_one_port_and_all_policies_of_a_host_are_one_rule(tmp_path: Path) -> None:
    section = "{group: '', kind: Service, name: web, sectionName: https}"
    (rule,) = rules(model_of(tmp_path, GOOD + policy() + policy(section, name="q"))).values()
    assert rule.traffic_policy is not None
    (port,) = rule.traffic_policy.port_level_settings
    assert rule.traffic_policy.tls == tls("p")
    assert port.port is not None
    assert (port.port.number, port.tls) == (443, tls("q"))


def test_all_hosts_of_a_service_entry_have_a_rule(tmp_path: Path) -> None:
    target = "{group: networking.istio.io, kind: ServiceEntry, name: banks}"
    assert set(rules(model_of(tmp_path, GOOD + policy(target)))) == {"one.example", "two.example"}


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (
            GOOD + policy("{group: '', kind: Service, name: gone}"),
            "spec.targetRefs[0]",
            "there is no Service shop/gone (TargetNotFound)",
        ),
        (
            GOOD + policy("{group: '', kind: Service, name: old}"),
            "spec.targetRefs[0]",
            (
                f"Service shop/old is of type ExternalName and stands for {HOST}: name that "
                "service (TargetNotFound)"
            ),
        ),
        (
            GOOD + policy("{group: apps, kind: Deployment, name: web}"),
            "spec.targetRefs[0]",
            (
                "a Deployment can't be a target; known: Service, and ServiceEntry of "
                "networking.istio.io (TargetNotFound)"
            ),
        ),
        (
            GOOD + policy("{group: '', kind: Service, name: web, sectionName: gone}"),
            "spec.targetRefs[0]",
            f'{HOST} has no port "gone"; it has http, https (TargetNotFound)',
        ),
        (
            policy(),
            "spec.validation.caCertificateRefs[0]",
            (
                "there is no ConfigMap shop/roots with certificates in ca.crt: connections fail "
                "(InvalidCACertificateRef)"
            ),
        ),
        (
            config_map("nothing") + policy(),
            "spec.validation.caCertificateRefs[0]",
            (
                "there is no ConfigMap shop/roots with certificates in ca.crt: connections fail "
                "(InvalidCACertificateRef)"
            ),
        ),
        (
            GOOD + policy(validation=ROOTS.replace("ConfigMap", "Secret")),
            "spec.validation.caCertificateRefs[0]",
            "a Secret can't be referred to; use a ConfigMap: connections fail (InvalidKind)",
        ),
        (
            GOOD + policy() + policy(name="late", created="2026-02-01T00:00:00Z"),
            "spec.targetRefs[0]",
            "the older BackendTLSPolicy p is for web: it counts (Conflicted)",
        ),
    ],
)
def test_what_can_not_be_followed_is_reported(
    tmp_path: Path, text: str, field: str, message: str
) -> None:
    (warning,) = model_of(tmp_path, text).warnings
    assert (warning.field, warning.message) == (field, message)


def test_a_policy_without_its_roots_does_not_go_without_validation(tmp_path: Path) -> None:
    (rule,) = rules(model_of(tmp_path, policy())).values()
    assert rule.traffic_policy is not None
    assert rule.traffic_policy.tls == tls()


def test_an_annotation_of_istios_takes_a_policy_away(tmp_path: Path) -> None:
    meta = "annotations: {istio.io/ignore-policy-attachment: 'true'}"
    assert rules(model_of(tmp_path, GOOD + policy(meta=meta))) == {}


def test_edits_lead_to_what_a_fresh_start_has(tmp_path: Path) -> None:
    before = model_of(tmp_path, policy())
    for text in (policy() + GOOD, policy(name="p2") + GOOD, "", policy()):
        after = model_of(tmp_path, text, before)
        fresh = model_of(tmp_path, text)
        assert rules(after) == rules(fresh)
        assert after.warnings == fresh.warnings
        before = after
