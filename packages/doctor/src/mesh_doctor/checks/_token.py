"""Whether the token is there, valid now, this workload's, and accepted by the authority."""

from collections.abc import Iterator, Mapping

from mesh_doctor._config import DoctorConfig, TokenPlace
from mesh_doctor._finding import Cause, Finding, consequence, ok, problem, skipped, warning
from mesh_doctor._observed import Observed, SeenServer, SeenToken, TokenState, entry
from mesh_doctor.checks._clock import CHECK as CLOCK
from mesh_doctor.checks._clock import control_planes_time
from mesh_identity import TokenClaims

CHECK = "token"
_CLOCK_SKEW_S = 60.0
_KUBERNETES = "system:serviceaccount:"


def token(config: DoctorConfig, seen: Observed) -> Iterator[Finding]:
    """Look at the token; without one, say whether it is needed."""
    place, found = config.token, seen.token
    if place is None or (found is None and not config.other_user):
        yield skipped(CHECK, "the workload proves its identity without a token")
        return
    if found is None:
        yield _by_the_agent(place, entry(seen.agent.document, "token"), config.other_user)
        return
    if found.state is not TokenState.READ:
        yield _not_read(place, found)
        return
    fault = _fault(place, found, seen)
    if fault is not None:
        yield consequence(fault, of=CLOCK) if _is_of_the_clock(fault, found, seen) else fault
        return
    yield from _tried(place, found, seen)


def _by_the_agent(place: TokenPlace, status: Mapping[str, object], why: str) -> Finding:
    fault = status.get("fault")
    if isinstance(fault, str) and fault:
        said = f"the agent says that the token in {place.path} {' '.join(fault[:500].split())}"
        return problem(CHECK, Cause.TOKEN_INVALID, said, f"run this as the agent's user ({why})")
    word = f"the agent finds no fault in {place.path}" if status else f"{place.path} is not read"
    return skipped(CHECK, f"{word} ({why})")


def _is_of_the_clock(fault: Finding, found: SeenToken, seen: Observed) -> bool:
    """Return whether the token is valid by the control plane's clock."""
    there = control_planes_time(seen)
    if there is None or fault.cause not in {Cause.TOKEN_EXPIRED, Cause.TOKEN_NOT_YET_VALID}:
        return False
    claims = found.claims
    if claims is None:
        return False
    begun = claims.not_before is None or claims.not_before <= there + _CLOCK_SKEW_S
    return begun and (claims.expires_at is None or claims.expires_at > there)


def _not_read(place: TokenPlace, found: SeenToken) -> Finding:
    if found.state is TokenState.MISSING and not place.needed:
        return skipped(
            CHECK, f"there is no token {place.path}; the certificate in PROV_CERT is used"
        )
    cause = Cause.TOKEN_MISSING if found.state is TokenState.MISSING else Cause.TOKEN_UNREADABLE
    return problem(
        CHECK,
        cause,
        f"token file {place.path} {found.reason}",
        "mount the workload's token there (in Kubernetes a projected service account token of "
        f"audience {place.audience}), readable for the agent's user",
    )


def _fault(place: TokenPlace, found: SeenToken, seen: Observed) -> Finding | None:
    claims = found.claims
    said = f"the token in {place.path} {found.fault}"
    if claims is None:
        return problem(CHECK, Cause.TOKEN_INVALID, said, "write the workload's token into the file")
    if claims.expires_at is not None and claims.expires_at <= seen.now:
        return problem(
            CHECK,
            Cause.TOKEN_EXPIRED,
            said,
            "find out why the file is not renewed: in Kubernetes the kubelet does it, elsewhere "
            "the program that wrote it has to run again; the agent reads it anew for each request",
        )
    if claims.not_before is not None and claims.not_before > seen.now + _CLOCK_SKEW_S:
        return problem(
            CHECK, Cause.TOKEN_NOT_YET_VALID, said, "set this machine's clock, or its issuer's"
        )
    stranger = _stranger(place, claims)
    if stranger:
        return problem(
            CHECK,
            Cause.TOKEN_FOREIGN,
            f"the token in {place.path} is another workload's: {stranger}",
            "mount the token of this workload's service account, or correct POD_NAMESPACE and "
            "SERVICE_ACCOUNT",
        )
    return None


def _stranger(place: TokenPlace, claims: TokenClaims) -> str:
    """Return how the subject differs from this workload's; empty if it does not."""
    if not claims.subject.startswith(_KUBERNETES) or place.namespace is None:
        return ""
    namespace, _, account = claims.subject.removeprefix(_KUBERNETES).partition(":")
    if (namespace, account) == (place.namespace, place.service_account):
        return ""
    return (
        f"its subject is {claims.subject[:200]}, and the workload is of namespace "
        f"{place.namespace} and service account {place.service_account}"
    )


def _tried(place: TokenPlace, found: SeenToken, seen: Observed) -> Iterator[Finding]:
    tried = [each for each in seen.servers if each.trial is not None]
    refused = next((each for each in tried if _accepted(each) is False), None)
    claims = found.claims
    foreign = claims is not None and place.audience not in claims.audiences
    if refused is not None and refused.trial is not None:
        hint = f"; its audience is not {place.audience}" if foreign else ""
        yield problem(
            CHECK,
            Cause.TOKEN_REFUSED,
            f"{refused.server.address} refuses the token ({refused.trial.reason}): the token "
            f"{found.facts}{hint}",
            "compare issuer and audience with those that the control plane accepts, and the key "
            "that signed it with its key set: it may be a token of another cluster",
        )
    elif any(_accepted(each) for each in tried):
        yield ok(CHECK, f"the authority accepts it; it {found.facts}")
    elif foreign:
        yield warning(
            CHECK,
            Cause.TOKEN_FOREIGN,
            f"the token's audience is not {place.audience}: it {found.facts}",
            f"ask for a token of audience {place.audience}, unless the control plane takes others",
        )
    else:
        yield ok(CHECK, f"it {found.facts}; no authority could be asked whether it accepts it")


def _accepted(server: SeenServer) -> bool | None:
    return None if server.trial is None else server.trial.accepted
