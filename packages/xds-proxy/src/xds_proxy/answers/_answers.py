"""The consequences of Envoy's answers on one stream, whatever they concern.

At once: the counters, the observer, the quarantine. Once it is known what was in the response: the
quarantine again, the log of refusals, and what keeps accepted responses, such as to save them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from mesh_lifecycle import RepeatLog
from xds_proxy.answers._learning import AcceptedResponses, Learning
from xds_proxy.answers._response_observer import Observation
from xds_proxy.protocol._shown import NAME, shorten, shown_names
from xds_proxy.quarantine._quarantining import Quarantining
from xds_proxy.saved._stale_start import Feeding
from xds_proxy.session._held import WHOLE_STATE
from xds_proxy.session._outcomes import Answered
from xds_proxy.session._session import Session
from xds_proxy.status._counters import Counters

log = logging.getLogger("xds_proxy")

_MAX_NAMES_LOGGED = 10


class Answers:
    """Calls all that follow whether Envoy accepted or refused a response.

    feeding: from saved configuration, None without. leading: says whether the stream leads.
    refusals: logs what Envoy refuses, by type URL.
    """

    def __init__(
        self,
        session: Session,
        *,
        counters: Counters,
        observation: Observation,
        feeding: Feeding | None,
        quarantining: Quarantining | None,
        accepted: AcceptedResponses | None,
        leading: Callable[[], bool],
        refusals: RepeatLog,
    ) -> None:
        self._session = session
        self._counters = counters
        self._observation = observation
        self._feeding = feeding
        self._quarantining = quarantining
        self._accepted = accepted
        self._leading = leading
        self._learning = Learning(session, self._on_contents)
        self._refusals = refusals

    def on_answer(self, answered: Answered) -> None:
        """Envoy answered a response; called for each, in order."""
        sent = answered.sent
        if answered.error is not None:
            self._counters.refused += 1
        self._observation.on_answer(self._session, sent.type_url, sent)
        if self._feeding is not None and not sent.generation:
            self._feeding.on_answer()
        if self._quarantining is not None:
            self._quarantining.on_answer(answered)
        self._learning.add(answered)

    async def wait_settled(self) -> None:
        """Wait until the contents of every answered response are known."""
        await self._learning.wait_settled()

    async def run(self) -> None:
        """Read large responses; runs until it is cancelled."""
        await self._learning.run()

    def _on_contents(self, answered: Answered, reasons: Mapping[str, str]) -> None:
        """The contents of an answered response are known. reasons: of the resources refused."""
        sent = answered.sent
        if self._quarantining is not None:
            self._quarantining.on_contents(answered, reasons)
        if answered.error is None:
            if sent.generation >= 0:  # a part is of a response that was refused
                self._refusals.ended(sent.type_url)
        else:
            self._log_refusal(answered, answered.error, reasons)
            if sent.type_url not in WHOLE_STATE or not reasons:
                return
        if self._accepted is not None and self._leading() and sent.generation:
            self._keep(self._accepted, answered, reasons)

    def _log_refusal(self, answered: Answered, error: str, reasons: Mapping[str, str]) -> None:
        sent, error = answered.sent, shorten(error)
        names = sorted(reasons)
        # A control plane may answer each refusal with the same configuration, without a pause.
        self._refusals.happened(
            sent.type_url,
            reason=error,
            facts={
                "type_url": sent.type_url,
                "version": shorten(sent.version, NAME),
                **({"resources": shown_names(names[:_MAX_NAMES_LOGGED])} if names else {}),
            },
        )

    def _keep(
        self, accepted: AcceptedResponses, answered: Answered, reasons: Mapping[str, str]
    ) -> None:
        sent, dialect = answered.sent, self._session.dialect
        if sent.response is None:
            return
        try:
            accepted.on_acceptance(
                node=self._session.node,
                dialect=dialect,
                type_url=sent.type_url,
                response=sent.response,
                keep=partial(self._session.worth_keeping, sent.type_url),
                whole=not dialect.resources_are_wrapped and sent.type_url in WHOLE_STATE,
                refused_names=frozenset(reasons),
            )
        except Exception:
            # The boundary to what keeps responses: Envoy's stream does not depend on it.
            log.exception("an accepted response could not be kept")
