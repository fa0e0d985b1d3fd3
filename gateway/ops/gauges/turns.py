"""Counts turns, their phases and tokens."""

from dataclasses import dataclass

from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.turns.reports import TurnReport
from ostler.metrics.instruments import PoolInstruments, TurnInstruments
from ostler.pool.keys import TransportKey

OWN = "own"
NO_MISS = "none"
EXAMPLE = "response_id"
"""What an exemplar names: a response that took so long."""
SOMETIMES = frozenset({"first_tool", "first_token"})
"""Phases that not every turn has. They are recorded only if they happened: a zero would look like a fast one."""


@dataclass(frozen=True, slots=True)
class TurnGauges:
    """Implements `TurnObserver` by Prometheus instruments."""

    turns: TurnInstruments
    pool: PoolInstruments

    def turn_ended(self, report: TurnReport) -> None:
        key, timings, outcome = report.key, report.timings, report.outcome
        provider, transport = key.provider, timings.transport
        self.turns.turns.of(provider, transport, outcome.status.value).inc()
        if outcome.status is TurnStatus.FAILED:
            self.turns.failures.of(provider, outcome.code).inc()
        if report.left_out:
            self.turns.cut.of(provider).inc()
        self._count_tokens(key, outcome)
        if not timings.reached:
            return
        if timings.warmth == OWN:
            # The session had its seat already, so the pool saw no claim.
            self.pool.claims.of(provider, key.model, OWN, NO_MISS).inc()
        phases, example = self.turns.phases, {EXAMPLE: report.turn_id}
        for phase, seconds in timings.breakdown().items():
            if seconds or phase not in SOMETIMES:
                phases.of(provider, transport, phase).observe(seconds, example)

    def _count_tokens(self, key: TransportKey, outcome: TurnOutcome) -> None:
        usage = outcome.usage
        if usage is None:
            return
        for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if tokens:
                self.turns.tokens.of(key.provider, key.model, direction).inc(tokens)
