"""OpenTelemetry traces of turns, if the operator configures them: a span for each step of a turn.

Rules: spans are created when the turn has ended, from the times that it recorded itself, so nothing is measured twice.
A `traceparent` that the client sent becomes their parent and decides whether they are sampled. The library is an
optional dependency, imported only here and only when traces are configured.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ostler.gateway.config.errors import ConfigError
from ostler.gateway.model.release import version
from ostler.gateway.turns.reports import NoTurnObserver, TurnObserver, TurnReport
from ostler.gateway.turns.timings import TurnTimings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

SETTING = "metrics.otlp_endpoint"
PARTS = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
EXTRA = (
    "opentelemetry is not installed: "
    "pip install 'opentelemetry-exporter-otlp-proto-http>=1.30' 'opentelemetry-sdk>=1.30'"
)
TurnSpanLine = tuple[str, float, float]


class TurnTraces:
    """Implements `TurnObserver` by spans. `skew` is the wall clock minus the turns' clock, in seconds."""

    def __init__(self, tracer: "Tracer", skew: Callable[[], float]) -> None:
        self._tracer = tracer
        self._skew = skew

    def turn_ended(self, report: TurnReport) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - see above

        skew, timings = self._skew(), report.timings
        parent = TraceContextTextMapPropagator().extract({"traceparent": report.origin.traceparent})

        def at(moment: float) -> int:
            return int((moment + skew) * 1e9)

        whole = self._tracer.start_span("turn", parent, attributes=facts(report), start_time=at(timings.asked))
        inside = trace.set_span_in_context(whole)
        for name, began, ended in lines(timings):
            self._tracer.start_span(name, inside, start_time=at(began)).end(at(ended))
        whole.end(at(timings.asked if timings.ended is None else timings.ended))


def facts(report: TurnReport) -> dict[str, str | int | float | bool]:
    """The attributes of a turn's span."""
    return {
        "ostler.session": report.session_id,
        "ostler.turn": report.turn_id,
        "ostler.request": report.origin.request_id,
        "ostler.provider": report.key.provider,
        "ostler.model": report.key.model,
        "ostler.transport": report.timings.transport,
        "ostler.warmth": report.timings.warmth,
        "ostler.outcome": report.outcome.status.value,
        "ostler.spawn_seconds": report.timings.waited.spawn,
        "ostler.session_new_seconds": report.timings.waited.session_new,
    }


def lines(timings: TurnTimings) -> Iterator[TurnSpanLine]:
    """The steps that the turn reached, as (name, begin, end). Each ends at its own mark; the last one ends with the
    turn."""
    end = timings.asked if timings.ended is None else timings.ended
    marks = (
        ("queue", timings.began),
        ("remember", timings.stored),
        ("attach", timings.seated),
        ("prompt", timings.prompted),
        ("listen", None),
    )
    before = timings.asked
    for name, mark in marks:
        yield name, before, end if mark is None else mark
        if mark is None:
            return
        before = mark


def check(endpoint: str | None) -> None:
    """Raise `ConfigError` if traces are configured and the library is missing."""
    if endpoint is None:
        return
    try:
        missing = [name for name in PARTS if find_spec(name) is None]
    except ModuleNotFoundError as error:
        raise ConfigError(SETTING, EXTRA) from error
    if missing:
        raise ConfigError(SETTING, EXTRA)


@asynccontextmanager
async def tracing(endpoint: str | None, skew: Callable[[], float]) -> AsyncIterator[TurnObserver]:
    """The observer that traces, while the gateway runs; at the end, it sends the last spans."""
    if endpoint is None:
        yield NoTurnObserver()
        return
    provider = provider_for(endpoint)
    try:
        yield TurnTraces(provider.get_tracer("ostler", version("ostler")), skew)
    finally:
        # `shutdown` waits for the network.
        await asyncio.to_thread(provider.shutdown)


def provider_for(endpoint: str) -> "TracerProvider":
    """A provider that sends spans in the background, in batches, and drops them if the receiver is too slow."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - see above
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - see above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        raise ConfigError(SETTING, EXTRA) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "ostler"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=5)))
    return provider
