"""The fields of a RequestAuthentication.

Source: Istio's API, security/v1.
"""

from istio_config.kinds.fields import SpecFields
from istio_config.kinds.selection import Selection, TargetRef, WorkloadSelector, selection_of
from mesh_configfile import Duration

MOST_PATIENCE_S = 10.0
"""The longest that a key set is waited for, whatever a rule's timeout says."""


class FromHeader(SpecFields, frozen=True):
    """A header that a token stands in, after a prefix such as `Bearer `."""

    name: str = ""
    prefix: str = ""


class ClaimToHeader(SpecFields, frozen=True):
    """A header in which the workload is told a claim of the token; nested ones as `a.b`."""

    header: str = ""
    claim: str = ""


class JwtRule(SpecFields, frozen=True):
    """The tokens of one issuer, and what becomes of them."""

    issuer: str = ""
    """May be left out beside `jwksUri`; it is not compared then."""
    audiences: tuple[str, ...] = ()
    """Any of them is right; none given: any is."""
    jwks_uri: str = ""
    jwks: str = ""
    """The key set itself. Without either it is found by the issuer's OpenID configuration."""
    from_headers: tuple[FromHeader, ...] = ()
    from_params: tuple[str, ...] = ()
    from_cookies: tuple[str, ...] = ()
    output_payload_to_header: str = ""
    forward_original_token: bool = False
    output_claim_to_headers: tuple[ClaimToHeader, ...] = ()
    timeout: Duration | None = None
    """Of fetching the key set."""
    space_delimited_claims: tuple[str, ...] = ()
    """Claims that hold several values in one text, beside `scope` and `permission`."""


class RequestAuthenticationSpec(SpecFields, frozen=True):
    """The tokens that some workloads look at: wrong ones are refused, missing ones are not."""

    selector: WorkloadSelector | None = None
    target_ref: TargetRef | None = None
    """The older way to give one of `target_refs`."""
    target_refs: tuple[TargetRef, ...] = ()
    jwt_rules: tuple[JwtRule, ...] = ()

    @property
    def refs(self) -> tuple[TargetRef, ...]:
        """All Gateways that it refers to."""
        return self.target_refs if self.target_ref is None else (self.target_ref,)

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""
        return selection_of(self.selector, self.refs)
