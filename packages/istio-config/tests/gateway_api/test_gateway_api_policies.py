"""The Gateway API's rules for the TLS of backends."""

import pytest

from gateway_api_specs import read

KIND = "BackendTLSPolicy"
TARGET = "{group: '', kind: Service, name: web}"
ROOTS = "caCertificateRefs: [{group: '', kind: ConfigMap, name: roots}]"


def policy(targets: str = TARGET, validation: str = f"hostname: web.example, {ROOTS}") -> str:
    return f"{{targetRefs: [{targets}], validation: {{{validation}}}}}"


@pytest.mark.parametrize(
    "spec",
    [
        policy(),
        policy(validation="hostname: web.example, wellKnownCACertificates: System"),
        policy(
            "{group: '', kind: Service, name: web, sectionName: http}, "
            "{group: '', kind: Service, name: web, sectionName: https}"
        ),
        policy(
            "{group: networking.istio.io, kind: ServiceEntry, name: web}",
            f"hostname: web.example, {ROOTS}, subjectAltNames: "
            "[{type: Hostname, hostname: '*.web.example'}, {type: URI, uri: 'spiffe://a/b'}]",
        ),
    ],
)
def test_a_good_policy_is_accepted_without_a_word(spec: str) -> None:
    assert read(KIND, spec) == ([], [])


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (policy(""), "targetRefs: must have 1 to 16 entries, it has 0"),
        (policy(f"{TARGET}, {TARGET}"), "targetRefs[1]: the target web is given twice"),
        (
            policy(f"{TARGET}, {{group: '', kind: Service, name: web, sectionName: https}}"),
            "targetRefs[1]: the target web is given twice: each needs a sectionName",
        ),
        (
            policy("{group: '', kind: Service, name: web, sectionName: A}"),
            'targetRefs[0].sectionName: "A" is not a name',
        ),
        (
            policy(validation=f"hostname: '*.example', {ROOTS}"),
            'validation.hostname: "*.example" is not a host name',
        ),
        (policy(validation="hostname: a.example"), "validation: needs caCertificateRefs, or"),
        (
            policy(validation=f"hostname: a.example, wellKnownCACertificates: System, {ROOTS}"),
            "validation: has caCertificateRefs and wellKnownCACertificates: keep one",
        ),
        (
            policy(validation="hostname: a.example, wellKnownCACertificates: Mozilla"),
            'validation.wellKnownCACertificates: "Mozilla" is not known here; known: System',
        ),
        (
            policy(validation=f"hostname: a.example, {ROOTS.replace('ConfigMap', 'C M')}"),
            'validation.caCertificateRefs[0].kind: "C M" is not a kind such as Service',
        ),
        (
            policy(
                validation=f"hostname: a.example, {ROOTS}, "
                "subjectAltNames: [{type: Hostname, uri: 'a:b'}]"
            ),
            "validation.subjectAltNames[0].uri: can't stand in a name of type Hostname",
        ),
        (
            policy(
                validation=f"hostname: a.example, {ROOTS}, subjectAltNames: [{{type: URI, uri: a}}]"
            ),
            'validation.subjectAltNames[0].uri: "a" is not a URI',
        ),
    ],
)
def test_a_mistake_is_reported_at_its_field(spec: str, wanted: str) -> None:
    mistakes, _ = read(KIND, spec)
    assert mistakes[0].startswith(wanted)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (policy()[:-1] + ", options: {a: b}}", "options: has no effect, as in Istio"),
        (
            policy(validation=f"hostname: a.example, {ROOTS[:-1]}, {ROOTS[20:-1]}]"),
            "validation.caCertificateRefs[1]: has no effect, as in Istio: the first counts",
        ),
    ],
)
def test_what_has_no_effect_is_reported(spec: str, wanted: str) -> None:
    assert read(KIND, spec) == ([], [wanted])
