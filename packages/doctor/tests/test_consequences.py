"""One cause is one problem; what follows from it is short, and says from what."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mesh_doctor import (
    Cause,
    DoctorConfig,
    Finding,
    HttpPlace,
    Server,
    Status,
    TokenPlace,
    as_text,
)
from mesh_doctor._examine import decide
from mesh_doctor._observed import (
    Observed,
    SeenClock,
    SeenPage,
    SeenServer,
    SeenToken,
    TokenState,
)
from mesh_identity import Fault, TokenClaims, Unreachable, Validity

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
NOW = START.timestamp()
REASON = "istiod:15012 answered UNAUTHENTICATED: token has expired (of issuer https://issuer)"
SERVER = Server(
    serves="configuration and certificates",
    address="istiod:15012",
    name="istiod",
    name_setting="ISTIOD_SAN",
    roots=Path("root.pem"),
    root_setting="XDS_ROOT_CA",
    signs=True,
)
CONFIG = DoctorConfig(
    agent=HttpPlace(host="127.0.0.1", port=15020, path="/debug/status"),
    servers=(SERVER,),
    token=TokenPlace(path=Path("token"), namespace="shop", service_account="web"),
)
REFUSED = Observed(
    now=NOW,
    agent=SeenPage(
        document={
            "ready": False,
            "reasons": [f"certificate: there is none yet: {REASON}"],
            "certificate": {"last_error": REASON},
            "xds": {"connected": False, "last_error": REASON},
        },
        answered=True,
    ),
    token=SeenToken(
        state=TokenState.READ,
        fault="expired 60 min ago",
        claims=TokenClaims(
            issuer="https://issuer",
            subject="system:serviceaccount:shop:web",
            audiences=("istio-ca",),
            expires_at=NOW - 3600,
            not_before=NOW - 7200,
            issued_at=NOW - 7200,
        ),
    ),
    servers=(SeenServer(server=SERVER),),
    clocks=(SeenClock(place=HttpPlace(host="istiod", port=8080, path="/ready"), ahead_s=0.1),),
)


def causes_of(findings: list[Finding], status: Status) -> list[Cause | None]:
    return [each.cause for each in findings if each.status is status]


def test_an_expired_token_is_one_problem() -> None:
    found = list(decide(CONFIG, REFUSED))
    assert causes_of(found, Status.PROBLEM) == [Cause.TOKEN_EXPIRED]
    assert causes_of(found, Status.CONSEQUENCE) == [
        Cause.CERTIFICATE_MISSING,
        Cause.AGENT_DISCONNECTED,
        Cause.AGENT_NOT_READY,
    ]
    assert {each.follows for each in found if each.status is Status.CONSEQUENCE} == {"token"}
    shown = as_text(found, width=200)
    assert "UNAUTHENTICATED" not in shown
    assert "the workload has no certificate (see token)" in shown
    assert shown.endswith("1 problem was found, and 3 more that follow from it: token.")


def test_without_a_cause_before_it_the_reason_is_reported() -> None:
    valid = replace(REFUSED.token, fault=None) if REFUSED.token is not None else None
    assert valid is not None
    claims = valid.claims
    assert claims is not None
    valid = replace(valid, claims=claims._replace(expires_at=NOW + 3600))
    found = list(decide(CONFIG, replace(REFUSED, token=valid)))
    # Without a certificate there is no connection; the certificate itself has no known cause.
    assert causes_of(found, Status.PROBLEM) == [Cause.CERTIFICATE_MISSING]
    assert REASON in next(each.said for each in found if each.status is Status.PROBLEM)


def skewed(ahead_s: float) -> Observed:
    """A control plane and a token that are right by the control plane's clock."""
    there = NOW + ahead_s
    claims = TokenClaims(
        issuer="https://issuer",
        subject="system:serviceaccount:shop:web",
        audiences=("istio-ca",),
        expires_at=there + 3600,
        not_before=there - 60,
        issued_at=there - 60,
    )
    begins = datetime.fromtimestamp(there - 60, UTC)
    unreachable = Unreachable(
        Fault.NOT_YET_VALID, "is not valid yet", Validity(begins, begins + timedelta(hours=24))
    )
    return replace(
        REFUSED,
        clocks=(SeenClock(place=HttpPlace(host="istiod", port=15014, path="/"), ahead_s=ahead_s),),
        token=replace(REFUSED.token, claims=claims) if REFUSED.token is not None else None,
        servers=(SeenServer(server=SERVER, unreachable=unreachable),),
    )


@pytest.mark.parametrize("ahead_s", [86_400.0, -86_400.0])
def test_a_skewed_clock_is_one_problem(ahead_s: float) -> None:
    found = list(decide(CONFIG, skewed(ahead_s)))
    assert causes_of(found, Status.PROBLEM) == [Cause.CLOCK_SKEW]
    assert {each.follows for each in found if each.status is Status.CONSEQUENCE} == {"clock"}


def test_the_clocks_are_identified_by_their_times_and_by_no_address() -> None:
    said = next(each.said for each in decide(CONFIG, skewed(86_400)) if each.check == "clock")
    assert said == (
        "this machine's clock is 24 h behind that of the control plane: here it is "
        "2030-01-01 12:00:00 UTC, there 2030-01-02 12:00:00 UTC"
    )


def test_a_clock_that_explains_nothing_excuses_nothing() -> None:
    """The token is expired by both clocks, and the certificate not yet valid by both."""
    later = datetime.fromtimestamp(NOW + 7200, UTC)
    unreachable = Unreachable(
        Fault.NOT_YET_VALID, "is not valid yet", Validity(later, later + timedelta(hours=24))
    )
    seen = replace(
        REFUSED,
        clocks=(SeenClock(place=HttpPlace(host="istiod", port=15014, path="/"), ahead_s=120),),
        servers=(SeenServer(server=SERVER, unreachable=unreachable),),
    )
    assert causes_of(list(decide(CONFIG, seen)), Status.PROBLEM) == [
        Cause.CLOCK_SKEW,
        Cause.CONTROL_PLANE_CERTIFICATE,
        Cause.TOKEN_EXPIRED,
    ]


OTHER = "user 1000 is not the agent's, 1337"


@pytest.mark.parametrize(
    ("fault", "status"), [(None, Status.SKIPPED), ("expired 12 min ago", Status.PROBLEM)]
)
def test_a_file_that_only_the_agent_may_read_is_no_problem(
    fault: str | None, status: Status
) -> None:
    document = {
        "ready": True,
        "token": {"path": "token", "fault": fault},  # the agent's own word
        "certificate": {"served_by": "/run/spire"},
        "xds": {"connected": True, "types": {}},
    }
    seen = replace(
        REFUSED,
        agent=SeenPage(document=document, answered=True),
        token=None,
        servers=(SeenServer(server=SERVER, roots_problem="root.pem cannot be read"),),
    )
    config = replace(CONFIG, other_user=OTHER, problems=("labels can't be read",))
    found = {each.check: each for each in decide(config, seen)}
    assert found["token"].status is status
    assert (fault or "no fault") in found["token"].said
    for check in ("control plane", "configuration"):
        assert (found[check].status, OTHER in found[check].said) == (Status.SKIPPED, True)
    own = {each.check: each for each in decide(replace(config, other_user=""), seen)}
    assert own["control plane"].cause is Cause.ROOT_MISSING


def test_the_first_line_says_whose_configuration_it_is() -> None:
    first = next(iter(decide(replace(CONFIG, examined="the agent at x"), REFUSED)))
    assert (first.check, first.status, first.said) == ("examined", Status.OK, "the agent at x")
