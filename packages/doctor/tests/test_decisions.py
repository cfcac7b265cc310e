"""Each check decides from what was seen: the cause, and a sentence with the values."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_doctor import (
    Cause,
    DnsPlace,
    DoctorConfig,
    EnvoyPlace,
    Finding,
    HttpPlace,
    PortUse,
    Protocol,
    Server,
    Status,
    TokenPlace,
    as_json,
    as_text,
)
from mesh_doctor._examine import decide
from mesh_doctor._finding import consequence
from mesh_doctor._observed import (
    Listener,
    Observed,
    SeenCapture,
    SeenClock,
    SeenEnvoy,
    SeenPage,
    SeenServer,
    SeenToken,
    TokenState,
    TokenTrial,
)
from mesh_identity import Fault, TokenClaims, Unreachable, Validity

NOW = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
SERVER = Server(
    serves="configuration and certificates",
    address="istiod:15012",
    name="istiod",
    name_setting="ISTIOD_SAN",
    roots=Path("root.pem"),
    root_setting="XDS_ROOT_CA",
    signs=True,
)
CLAIMS = TokenClaims(
    issuer="https://issuer",
    subject="system:serviceaccount:shop:web",
    audiences=("istio-ca",),
    expires_at=NOW + 3600,
    not_before=NOW - 60,
    issued_at=NOW - 60,
)
TOKEN = SeenToken(state=TokenState.READ, facts="expires in 60 min", claims=CLAIMS)
STATUS: Mapping[str, object] = {
    "ready": True,
    "agent": {"pid": 10},
    "envoy": {"pid": 11, "crashes": 0},
    "certificate": {"serial": "4d2", "not_after": "2030-01-01T10:00:00+00:00"},
    "xds": {"connected": True, "types": {"type.googleapis.com/a.Cluster": {"acked": True}}},
    "names": {"own_queries": 0},
}
CERTS = {"certificates": [{"cert_chain": [{"serial_number": "04D2"}]}]}
CONFIG = DoctorConfig(
    agent=HttpPlace(host="127.0.0.1", port=15020, path="/debug/status"),
    servers=(SERVER,),
    token=TokenPlace(path=Path("token"), namespace="shop", service_account="web"),
    ports=(PortUse(host="127.0.0.1", port=15020, use="status", setting="statusPort"),),
    dns=DnsPlace(listens=(("localhost", 15053),), resolv_conf=Path("/etc/resolv.conf")),
    envoy=EnvoyPlace(binary=Path("/envoy")),
    interception="NONE",
)
SEEN = Observed(
    now=NOW,
    agent=SeenPage(document=STATUS, answered=True),
    token=TOKEN,
    servers=(SeenServer(server=SERVER, trial=TokenTrial(accepted=True)),),
    clocks=(SeenClock(place=HttpPlace(host="istiod", port=8080, path="/"), ahead_s=0.2),),
    certificates=SeenPage(document=CERTS, answered=True),
    listeners=(Listener(protocol=Protocol.TCP, host="127.0.0.1", port=15020, uid=0, pid=10),),
    resolv_conf="nameserver 10.0.0.2\n",
    capture=SeenCapture(rules=False),
    envoy=SeenEnvoy(version="1.40.0"),
)


def found(config: DoctorConfig = CONFIG, seen: Observed = SEEN) -> list[Finding]:
    return list(decide(config, seen))


def only(seen: Observed, config: DoctorConfig = CONFIG) -> Finding:
    """The one finding that is not well."""
    bad = [each for each in found(config, seen) if each.cause is not None]
    assert len(bad) == 1, bad
    return bad[0]


def status_with(**changes: object) -> Observed:
    return replace(SEEN, agent=SeenPage(document={**STATUS, **changes}, answered=True))


def test_nothing_is_wrong() -> None:
    assert {each.status for each in found()} == {Status.OK}


def test_every_problem_says_what_to_do() -> None:
    seen = replace(
        SEEN,
        token=SeenToken(state=TokenState.MISSING, reason="does not exist"),
        servers=(SeenServer(server=SERVER, roots_problem="root.pem does not exist"),),
        agent=SeenPage(reason="no whole answer within 3 s"),
        listeners=(),
        envoy=SeenEnvoy(problem="can't be run"),
        capture=SeenCapture(rules=False),
    )
    config = replace(CONFIG, interception="REDIRECT", problems=("SECRET_TTL: no duration",))
    problems = [each for each in found(config, seen) if each.status is Status.PROBLEM]
    assert [each.cause for each in problems] == [
        Cause.CONFIGURATION,
        Cause.ROOT_MISSING,
        Cause.TOKEN_MISSING,
        Cause.CAPTURE_MISSING,
        Cause.ENVOY_BROKEN,
        Cause.AGENT_SILENT,
    ]
    assert all(each.fix for each in problems)


@pytest.mark.parametrize(
    ("claims", "fault", "cause"),
    [
        (CLAIMS._replace(expires_at=NOW - 720), "expired 12 min ago", Cause.TOKEN_EXPIRED),
        (None, "is no JSON Web Token", Cause.TOKEN_INVALID),
        (
            CLAIMS._replace(subject="system:serviceaccount:bank:vault"),
            None,
            Cause.TOKEN_FOREIGN,
        ),
    ],
)
def test_tokens(claims: TokenClaims | None, fault: str | None, cause: Cause) -> None:
    finding = only(replace(SEEN, token=replace(TOKEN, claims=claims, fault=fault)))
    assert finding.cause is cause
    assert (fault or "bank:vault") in finding.said


def test_a_token_is_no_strangers_where_it_is_not_said_whose_it_should_be() -> None:
    assert CONFIG.token is not None
    anyones = replace(CONFIG.token, namespace=None, service_account=None)
    claims = CLAIMS._replace(subject="system:serviceaccount:bank:vault")
    seen = replace(SEEN, token=replace(TOKEN, claims=claims))
    assert all(each.cause is None for each in found(replace(CONFIG, token=anyones), seen))


def test_what_is_examined_has_a_remedy_if_another_was_meant() -> None:
    config = replace(CONFIG, examined="the environment of this shell", examined_fix="name one")
    first, *_ = found(config)
    assert (first.check, first.status, first.fix) == ("examined", Status.OK, "name one")


def test_a_token_without_which_there_is_a_certificate_is_not_missed() -> None:
    config = replace(CONFIG, token=replace(CONFIG.token, needed=False)) if CONFIG.token else CONFIG
    missing = SeenToken(state=TokenState.MISSING, reason="does not exist")
    assert all(each.cause is None for each in found(config, replace(SEEN, token=missing)))


def test_a_refused_token_is_compared_with_what_is_expected() -> None:
    trial = TokenTrial(accepted=False, reason="UNAUTHENTICATED: no")
    other = CLAIMS._replace(audiences=("vault",))
    seen = replace(
        SEEN,
        token=replace(TOKEN, claims=other, facts="is from issuer x"),
        servers=(SeenServer(server=SERVER, trial=trial),),
    )
    finding = only(seen)
    assert finding.cause is Cause.TOKEN_REFUSED
    for words in ("UNAUTHENTICATED: no", "is from issuer x", "audience is not istio-ca"):
        assert words in finding.said


def test_another_audience_counts_only_where_the_authority_was_not_asked() -> None:
    token = replace(TOKEN, claims=CLAIMS._replace(audiences=("mesh",)))
    assert all(each.cause is None for each in found(seen=replace(SEEN, token=token)))
    not_asked = replace(SEEN, token=token, servers=(SeenServer(server=SERVER),))
    assert only(not_asked).status is Status.WARNING


@pytest.mark.parametrize(
    ("ahead_s", "words"),
    [(86_400, "24 h behind"), (-7_300, "2 h 1 min ahead of"), (61, "61 s behind")],
)
def test_clocks(ahead_s: float, words: str) -> None:
    clock = SeenClock(place=CONFIG.agent, ahead_s=ahead_s)
    finding = only(replace(SEEN, clocks=(clock,)))
    assert (finding.cause, words in finding.said) == (Cause.CLOCK_SKEW, True)


def test_a_clock_is_wrong_also_where_no_page_tells_the_time() -> None:
    tomorrow = datetime(2030, 1, 2, tzinfo=UTC)
    unreachable = Unreachable(Fault.NOT_YET_VALID, "not yet", Validity(tomorrow, tomorrow))
    seen = replace(SEEN, clocks=(), servers=(SeenServer(server=SERVER, unreachable=unreachable),))
    first = next(each for each in found(seen=seen) if each.cause is not None)
    assert first.cause is Cause.CLOCK_SKEW
    assert "24 h behind, or more" in first.said


@pytest.mark.parametrize("fault", list(Fault))
def test_each_fault_of_the_control_plane_has_a_cause_and_a_fix(fault: Fault) -> None:
    seen = replace(
        SEEN, servers=(SeenServer(server=SERVER, unreachable=Unreachable(fault, "because")),)
    )
    finding = only(seen)
    assert finding.check == "control plane"
    assert "istiod:15012 (configuration and certificates): because" in finding.said
    assert finding.fix


@pytest.mark.parametrize(
    ("host", "pid", "running", "taken"),
    [
        ("127.0.0.1", 99, False, True),
        ("0.0.0.0", 99, False, True),  # noqa: S104
        ("::", 99, False, True),
        ("127.0.0.2", 99, False, False),
        ("::1", 99, False, False),
        ("127.0.0.1", None, False, True),
        ("127.0.0.1", 99, True, True),
        ("127.0.0.1", 11, True, False),
        ("127.0.0.1", None, True, False),
    ],
)
def test_ports(host: str, pid: int | None, running: bool, taken: bool) -> None:  # noqa: FBT001
    listener = Listener(
        protocol=Protocol.TCP, host=host, port=15020, uid=33, pid=pid, program="nginx"
    )
    agent = SEEN.agent if running else SeenPage(reason="refused", refused=True)
    bad = [
        each
        for each in found(seen=replace(SEEN, agent=agent, listeners=(listener,)))
        if each.cause is not None
    ]
    assert [each.cause for each in bad] == ([Cause.PORT_TAKEN] if taken else [])
    if taken:
        assert ("99 (nginx)" if pid else "user 33") in bad[0].said


@pytest.mark.parametrize(
    "program",
    [
        "python3 /usr/local/bin/mesh-agent proxy sidecar",
        "python3 -m mesh_agent proxy",
        "python3 -m mesh_agent._process {}",
    ],
)
def test_an_agent_that_starts_is_not_taken_for_a_stranger(program: str) -> None:
    listener = Listener(
        protocol=Protocol.TCP,
        host="127.0.0.1",
        port=15020,
        uid=0,
        pid=10,
        program=program,
    )
    config = replace(CONFIG, own_programs=("mesh-agent", "mesh_agent", "mesh_agent._process"))
    starting = SeenPage(reason="it answers 503: the agent is still starting", answered=True)
    seen = replace(SEEN, agent=starting, listeners=(listener,))
    assert [each.cause for each in found(config, seen) if each.cause] == [Cause.AGENT_SILENT]


def test_another_workloads_agent_is_recognised() -> None:
    seen = status_with(workload="vault-1.bank")
    assert only(seen, replace(CONFIG, workload="web-1.shop")).cause is Cause.PORT_TAKEN
    assert found(replace(CONFIG, workload="vault-1.bank"), seen)[-1].cause is None


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("nameserver 127.0.0.1#15053\n", Cause.DNS_LOOP),
        ("nameserver [::1]:15053\nnameserver 127.0.0.1:15053", Cause.DNS_LOOP),
        ("nameserver 127.0.0.1:15053\nnameserver 10.0.0.2", None),
        ("", None),
        (None, Cause.NO_RESOLVER),
    ],
)
def test_resolvers(text: str | None, cause: Cause | None) -> None:
    seen = replace(SEEN, resolv_conf=text, resolv_conf_problem="it cannot be read")
    causes = [each.cause for each in found(seen=seen) if each.cause is not None]
    assert causes == ([] if cause is None else [cause])


def test_questions_that_came_back_are_a_loop() -> None:
    finding = only(status_with(names={"own_queries": 7}))
    assert (finding.cause, "7 so far" in finding.said) == (Cause.DNS_LOOP, True)


@pytest.mark.parametrize(
    ("mode", "rules", "cause"),
    [
        ("REDIRECT", True, None),
        ("tproxy", False, Cause.CAPTURE_MISSING),
        ("NONE", True, Cause.CAPTURE_UNWANTED),
        ("", True, None),
        ("", False, None),
        ("REDIRECT", None, None),
    ],
)
def test_capture(mode: str, rules: bool | None, cause: Cause | None) -> None:  # noqa: FBT001
    seen = replace(SEEN, capture=SeenCapture(rules=rules, reason="only root may"))
    causes = [each.cause for each in found(replace(CONFIG, interception=mode), seen) if each.cause]
    assert causes == ([] if cause is None else [cause])


def test_an_unhealthy_application_is_a_warning() -> None:
    finding = only(status_with(health_check={"healthy": False, "reason": "status 500"}))
    assert (finding.status, finding.cause) == (Status.WARNING, Cause.APPLICATION_UNHEALTHY)
    assert "status 500" in finding.said
    healthy = status_with(health_check={"healthy": True, "reason": ""})
    assert all(each.cause is None for each in found(seen=healthy))


def test_a_cluster_that_warms_is_named() -> None:
    envoy = {"pid": 11, "crashes": 0, "warming": 2, "warming_clusters": ["a", "b"]}
    finding = only(status_with(envoy=envoy))
    assert finding.cause is Cause.CLUSTERS_WARMING
    assert finding.said == "2 clusters are warming, Envoy does not use them yet: a, b"


def test_how_often_envoy_ended_is_reported_in_words() -> None:
    for crashes, words in ((1, "once"), (2, "2 times")):
        finding = only(status_with(envoy={"pid": 11, "crashes": crashes, "last_crash": "SIGSEGV"}))
        assert finding.said == (
            f"Envoy has ended by itself {words} since the agent started, last: SIGSEGV"
        )


def test_a_nack_has_type_version_reason_and_what_stays() -> None:
    refused = {"nack": "no\nsuch cluster", "version": "v8", "in_use": "v7"}
    types = {"type.googleapis.com/a.Listener": {**refused, "push_reasons": ["VS/shop/a"]}}
    finding = only(status_with(xds={"connected": True, "types": types}))
    assert finding.cause is Cause.NACK
    assert finding.said == (
        "version v8 of a.Listener is refused: no such cluster; version v7 stays in use"
    )
    named = {"type.googleapis.com/a.Listener": {**refused, "name": "listeners"}}
    said = only(status_with(xds={"connected": True, "types": named})).said
    assert said.startswith("version v8 of listeners is refused")
    assert "VS/shop/a" in finding.fix


@pytest.mark.parametrize(
    ("certificate", "cause"),
    [
        ({"last_error": "refused"}, Cause.CERTIFICATE_MISSING),
        ({}, Cause.CERTIFICATE_MISSING),
        (
            {"serial": "4d2", "not_after": "2029-12-31T23:00:00+00:00"},
            Cause.CERTIFICATE_EXPIRED,
        ),
        (
            {
                "serial": "4d2",
                "not_after": "2030-01-01T10:00:00+00:00",
                "last_error": "no answer",
            },
            Cause.CERTIFICATE_NOT_RENEWED,
        ),
        (
            {"serial": "5", "not_after": "2030-01-01T10:00:00+00:00"},
            Cause.CERTIFICATE_DRIFT,
        ),
        ({"served_by": "/run/spire"}, None),
    ],
)
def test_certificates_of_a_running_agent(
    certificate: dict[str, object], cause: Cause | None
) -> None:
    seen = status_with(certificate=certificate)
    causes = [each.cause for each in found(seen=seen) if each.cause is not None]
    assert causes == ([] if cause is None else [cause])


def test_a_reason_that_was_reported_is_not_reported_again() -> None:
    error = "its certificate is not signed by a root in root.pem"
    seen = status_with(
        ready=False,
        reasons=[f"certificate: there is none yet: {error}"],
        certificate={"last_error": error},
    )
    last = found(seen=seen)[-1]
    assert last.cause is Cause.AGENT_NOT_READY
    assert last.said.endswith("certificate: there is none yet: see above")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["ready", "reasons", "agent", "envoy", "certificate", "xds", "names", "types", "connected"]
)


@pytest.mark.slow
@given(st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON)))
def test_a_status_of_any_form_does_no_harm(document: dict[str, object]) -> None:
    page = SeenPage(document=document, answered=True)
    findings = found(seen=replace(SEEN, agent=page, certificates=page))
    text = as_text(findings, width=80)
    # Only a word that is longer than the line passes its end.
    assert all(len(line) <= 80 or " " not in line.strip("-> ") for line in text.splitlines())
    assert "\x1b" not in text
    assert as_json(findings)


def test_the_screen() -> None:
    problem = Finding(
        check="token",
        status=Status.PROBLEM,
        said="the token in var/run/secrets/tokens/istio-token expired 12 min ago",
        cause=Cause.TOKEN_EXPIRED,
        fix="renew it",
    )
    fine = Finding(check="clock", status=Status.OK, said="within 1 s")
    follows = consequence(replace(problem, check="agent", brief="is not ready"), of="token")
    assert as_text([fine, problem, follows], width=60).splitlines() == [
        "ok       clock: within 1 s",
        "PROBLEM  token: the token in",
        "         var/run/secrets/tokens/istio-token expired 12 min",
        "         ago",
        "         cause: token-expired",
        "         -> renew it",
        "follows  agent: is not ready (see token)",
        "",
        "1 problem was found, and 1 more that follows from it: token.",
    ]
    assert as_text([replace(fine, said=f"{'/long' * 9} is well")], width=40).splitlines()[:3] == [
        "ok       clock:",
        f"         {'/long' * 9}",
        "         is well",
    ]
    assert as_text([fine, problem], width=120).splitlines() == [
        "ok       clock  within 1 s",
        "PROBLEM  token  the token in var/run/secrets/tokens/istio-token expired 12 min ago",
        "                cause: token-expired",
        "                -> renew it",
        "",
        "1 problem was found: token.",
    ]
    assert as_text([fine]).endswith("No problem was found.")
    assert "\x1b[31;1mPROBLEM" in as_text([problem], colour=True)
    assert json.loads(as_json([problem, follows])) == {
        "healthy": False,
        "findings": [
            {
                "check": "token",
                "status": "problem",
                "cause": "token-expired",
                "said": problem.said,
                "fix": "renew it",
                "follows": None,
            },
            {
                "check": "agent",
                "status": "consequence",
                "cause": "token-expired",
                "said": problem.said,
                "fix": "renew it",
                "follows": "token",
            },
        ],
    }
