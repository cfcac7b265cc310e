"""How often and when Envoy tries a request again."""

from envoy.extensions.retry.priority.previous_priorities.v3 import previous_priorities_config_pb2

from envoy_config.generate._messages import (
    duration,
    packed,
    previous_hosts_pb2,
    route_components_pb2,
    wrappers_pb2,
)
from istio_config.kinds.virtual_service import HttpRetry

_CONDITIONS = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
_ATTEMPTS = 2
_MOST_HOST_SELECTIONS = 20
"""An endpoint that refuses connections has no open requests, so it is preferred where the fewest
decide: of two endpoints, with Istio's 5, nearly one retry in five goes there again."""
_PRIORITIES_AFTER = 2
"""So many tries may go to the priorities that were tried, before others are."""

RetryPolicy = route_components_pb2.RetryPolicy


def retry_policy(
    retries: HttpRetry | None, *, default: HttpRetry | None, hashed: bool = False
) -> route_components_pb2.RetryPolicy | None:
    """Make the policy of a route; None if nothing is tried again.

    default: the mesh's, for routes that say nothing. hashed: endpoints are chosen by consistent
    hashing, which would not lead elsewhere.
    """
    chosen = retries if retries is not None else default
    if chosen is None:
        policy = RetryPolicy(
            retry_on=_CONDITIONS, num_retries=wrappers_pb2.UInt32Value(value=_ATTEMPTS)
        )
        return _with_hosts(policy, other_hosts=not hashed)
    if chosen.attempts <= 0:
        return None
    policy = RetryPolicy(num_retries=wrappers_pb2.UInt32Value(value=chosen.attempts))
    _set_conditions(policy, chosen.retry_on)
    if chosen.per_try_timeout is not None:
        policy.per_try_timeout.CopyFrom(duration(chosen.per_try_timeout))
    if chosen.backoff is not None:
        policy.retry_back_off.base_interval.CopyFrom(duration(chosen.backoff))
    if chosen.retry_remote_localities:
        policy.retry_priority.CopyFrom(
            RetryPolicy.RetryPriority(
                name="envoy.retry_priorities.previous_priorities",
                typed_config=packed(
                    previous_priorities_config_pb2.PreviousPrioritiesConfig(
                        update_frequency=_PRIORITIES_AFTER
                    )
                ),
            )
        )
    ignored = chosen.retry_ignore_previous_hosts
    return _with_hosts(policy, other_hosts=ignored if ignored is not None else not hashed)


def _set_conditions(policy: route_components_pb2.RetryPolicy, retry_on: str) -> None:
    """Sort HTTP statuses out of the conditions: Envoy has a field of its own for them."""
    words = [each for word in retry_on.split(",") if (each := word.strip())]
    if not words:
        policy.retry_on = _CONDITIONS
        return
    codes = [int(each) for each in words if each.isdecimal()]
    conditions = [each for each in words if not each.isdecimal()]
    if codes:
        policy.retriable_status_codes.extend(codes)
        if "retriable-status-codes" not in conditions:
            conditions.append("retriable-status-codes")
    policy.retry_on = ",".join(conditions)


def _with_hosts(
    policy: route_components_pb2.RetryPolicy, *, other_hosts: bool
) -> route_components_pb2.RetryPolicy:
    policy.host_selection_retry_max_attempts = _MOST_HOST_SELECTIONS
    if other_hosts:
        policy.retry_host_predicate.append(
            RetryPolicy.RetryHostPredicate(
                name="envoy.retry_host_predicates.previous_hosts",
                typed_config=packed(previous_hosts_pb2.PreviousHostsPredicate()),
            )
        )
    return policy
