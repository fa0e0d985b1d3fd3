"""Traces of turns: sent by the real exporter to a collector of the test's own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ostler.gateway.ops.gauges.traces import lines
from ostler.gateway.server.listener import address_of, listen_tcp
from ostler.gateway.server.serving import Server
from ostler.gateway.turns.timings import TurnTimings
from tests.support.served import serving

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[str, list[Span]]]:
    """(endpoint, the spans that came)"""
    spans: list[Span] = []

    async def take(request: Request) -> Response:
        sent = ExportTraceServiceRequest.FromString(await request.body())
        spans.extend(span for each in sent.resource_spans for scope in each.scope_spans for span in scope.spans)
        return Response()

    app = Starlette(routes=[Route("/v1/traces", take, methods=["POST"])])
    listener = listen_tcp("127.0.0.1", 0, patience=30)
    server = Server(uvicorn.Config(app, lifespan="off", log_config=None))
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(sockets=[listener]))
        yield f"{address_of(listener)}/v1/traces", spans
        server.should_exit = True


async def test_a_turn_is_one_span_with_a_child_for_each_of_its_lines_under_the_clients_own(tmp_path: Path) -> None:
    async with collector() as (endpoint, spans):
        async with serving(tmp_path / "data", metrics__otlp_endpoint=endpoint) as served:
            sent = {"model": "demo", "input": "hello"}
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine"}
            made = (await served.http.post("/v1/responses", json=sent, headers=headers)).json()
        (turn,) = [span for span in spans if span.name == "turn"]
        rest = [span for span in spans if span.name != "turn"]
    assert (turn.trace_id.hex(), turn.parent_span_id.hex()) == (TRACE, PARENT)
    facts = {fact.key: fact.value.string_value for fact in turn.attributes}
    assert facts["ostler.turn"] == made["id"]
    assert (facts["ostler.request"], facts["ostler.outcome"], facts["ostler.warmth"]) == ("mine", "completed", "cold")
    assert [span.name for span in rest] == ["queue", "remember", "attach", "prompt", "listen"]
    assert {span.parent_span_id for span in rest} == {turn.span_id}
    edges = [turn.start_time_unix_nano, *(span.end_time_unix_nano for span in rest)]
    assert edges == sorted(edges)
    assert rest[-1].end_time_unix_nano == turn.end_time_unix_nano


@pytest.mark.parametrize("reached", [0, 2, 4])
def test_the_line_that_a_turn_ended_in_is_its_last_span(reached: int) -> None:
    timings = TurnTimings(lambda: 1.0)
    for mark in (timings.begin, timings.store, timings.sit, timings.prompt)[:reached]:
        mark()
    timings.report("s", "t")
    assert [name for name, _, _ in lines(timings)] == ["queue", "remember", "attach", "prompt", "listen"][: reached + 1]
