"""The facts that are served, as a model, and what is said of it."""

import logging
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from envoy_config.changes import difference
from mesh_configfile import Problem
from mesh_discovery._limited_lines import first_of
from mesh_discovery._metrics import Metrics
from mesh_discovery.push._served_context import ServedContext
from mesh_findings import Advice, Findings, Unmatched, advise, review, unmatched
from mesh_model import Facts, MeshModel, build_model
from xds_server import PushRequest

log = logging.getLogger(__name__)
_WITHOUT_EFFECT = "configuration is accepted and has no effect"
_NOT_REACHED = "configuration is served, and no proxy can reach it"
_PROBABLY_WRONG = "configuration is served as it is, and is probably not what was meant"


class ConfigStore:
    """Serves facts, and notifies the xDS server of what changed."""

    def __init__(
        self,
        facts: Facts,
        *,
        metrics: Metrics,
        trust_domain: str,
        domain: str,
        scope_gateways: bool,
        strict_namespaces: bool,
    ) -> None:
        """Serve the first facts.

        trust_domain: unless the mesh config says another. domain: the suffix of hosts of the mesh.
        scope_gateways: a Gateway is for routers of its own namespace alone.
        strict_namespaces: a namespace governs its own hosts alone.
        """
        self._metrics = metrics
        self._default_trust_domain = trust_domain
        self._domain = domain
        self._scope_gateways = scope_gateways
        self._strict_namespaces = strict_namespaces
        self.snapshot = facts.snapshot
        """The configuration that is served, but for pods that were read again and say the same."""
        self._read: object = facts.snapshot.identity
        """The mark of the snapshot that was given last."""
        self.unreachable: tuple[Problem, ...] = ()
        """Services that are served and can't be reached."""
        self._logged_notes: frozenset[Problem] = frozenset()
        self._logged_warnings: frozenset[Problem] = frozenset()
        self._judged: tuple[Problem, ...] = ()
        """Warnings of the whole mesh, beside those of its objects."""
        self.loaded_at = time.time()
        """When the configuration that is served was read (Unix seconds)."""
        self.served = ServedContext(self._model(facts, None))
        self._findings: Findings | None = None
        self._unmatched: Unmatched | None = None
        self._advice: Advice | None = None
        self._log_notes()
        self.look_for_unreachable()

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Fields with an effect that is probably not meant, and references that lead nowhere."""
        return (*self._warnings_of_objects, *self._judged)

    @property
    def _warnings_of_objects(self) -> tuple[Problem, ...]:
        return (*self.snapshot.warnings, *self.served.pending.warnings)

    def serve(self, facts: Facts, notify: Callable[[PushRequest], None]) -> None:
        """Serve these facts in place of others, and have what changed pushed."""
        snapshot, before = facts.snapshot, self.served.pending
        is_read_anew = snapshot.identity != self._read
        if is_read_anew:
            self._read = snapshot.identity
            self.loaded_at = time.time()
        model = self._model(facts, before)
        if model.says_the_same_as(before):
            # The snapshot that is served stays: to let go of one costs what the mesh has.
            self.served.pending = model
            return
        self.snapshot = snapshot
        self._serve(model, notify)
        if is_read_anew:
            self._log_notes()

    def _serve(self, model: MeshModel, notify: Callable[[PushRequest], None]) -> None:
        before = self.served.pending
        request = difference(before, model)
        self.served.pending = model
        if request is None:
            return
        if before.trust_domain != model.trust_domain:
            log.warning(
                "the trust domain changed: certificates are issued for the old one until restart",
                extra={"old": before.trust_domain, "new": model.trust_domain},
            )
        log.info(
            "configuration changed",
            extra={
                "services": len(model.services),
                "incremental": request.incremental,
                "changed": len(request.configs_updated) or "everything",
            },
        )
        notify(request)

    def _model(self, facts: Facts, before: MeshModel | None) -> MeshModel:
        model = build_model(
            facts,
            default_trust_domain=self._default_trust_domain,
            domain=self._domain,
            scope_gateways=self._scope_gateways,
            strict_namespaces=self._strict_namespaces,
            before=before,
        )
        self._metrics.services.set(len(model.services))
        return model

    def look_for_unreachable(self) -> None:
        """Find what is served and can't be reached, and log it once for as long as it is so.

        Call it after `serve`, in a thread: in a large mesh no push should wait for it.
        It costs next to nothing if only endpoints changed, other than on addresses of this machine
        or of headless services.
        """
        before, self._findings = self._findings, review(self.served.pending, self._findings)
        self._unmatched = unmatched(self.snapshot, self._findings.model, self._unmatched)
        self._advice = advise(self.snapshot, self._findings.model, self._advice)
        known_warnings = frozenset(self._judged)
        self._judged = (
            *self._findings.warnings,
            *self._unmatched.warnings,
            *self._advice.warnings,
        )
        _log_new(_PROBABLY_WRONG, self._judged, known_warnings)
        if before is not None and before.parts is self._findings.parts:
            return
        found = self._findings.problems
        _log_new(_NOT_REACHED, found, frozenset(self.unreachable))
        self.unreachable = found
        self._metrics.config_unreachable.set(len(found))

    def _log_notes(self) -> None:
        """Log what has no effect, or hardly the one meant, each once for as long as it is so."""
        _log_new(_WITHOUT_EFFECT, self.snapshot.notes, self._logged_notes)
        self._logged_notes = frozenset(self.snapshot.notes)
        warnings = self._warnings_of_objects
        _log_new(_PROBABLY_WRONG, warnings, self._logged_warnings)
        self._logged_warnings = frozenset(warnings)
        self._metrics.config_unsupported.set(len(self._logged_notes))


def _log_new(message: str, found: Sequence[Problem], known: AbstractSet[Problem]) -> None:
    new = [each for each in found if each not in known]
    for each in first_of(new, message):
        log.warning(message, extra={"what": str(each)})
