"""What each dashboard shows, as data: panels, and the queries behind them.

Rules: every rate is over `$__rate_interval`; every panel that speaks of agents follows the `$provider` variable. What
is rare (refusals, deaths) is zero where it never happened: a panel without data looks like a broken one.
"""

from dataclasses import dataclass

P = 'provider=~"$provider"'
RATE = "[$__rate_interval]"


@dataclass(frozen=True)
class Query:
    """One line, or one set of lines, of a panel."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One picture."""

    title: str
    text: str
    queries: tuple[Query, ...]
    unit: str = "short"
    stacked: bool = False
    number: bool = False
    """The latest value only."""


@dataclass(frozen=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    text: str
    panels: tuple[Panel, ...]


def rate(metric: str, by: str, where: str = P) -> str:
    """By second."""
    return f"sum by ({by}) (rate({metric}{{{where}}}{RATE}))" if where else f"sum by ({by}) (rate({metric}{RATE}))"


def rare(metric: str, by: str, where: str = P) -> str:
    """The same for what may never have happened."""
    return f"({rate(metric, by, where)}) or vector(0)"


def quantile(share: float, metric: str, by: str, where: str = P) -> str:
    """From buckets."""
    inner = f"sum by (le, {by}) (rate({metric}_bucket{{{where}}}{RATE}))"
    return f"histogram_quantile({share}, {inner})"


def both(metric: str, by: str, legend: str, where: str = P) -> tuple[Query, ...]:
    """The middle and the tail."""
    return (
        Query(quantile(0.5, metric, by, where), f"{legend} p50"),
        Query(quantile(0.99, metric, by, where), f"{legend} p99"),
    )


def total(metric: str, by: str, where: str = P) -> str:
    """A level."""
    return f"sum by ({by}) ({metric}{{{where}}})"


CLAIMS, PHASES = "ostler_pool_claims_total", "ostler_turn_phase_seconds"
WARM = f'{P}, warmth=~"own|parked"'

POOL = Board(
    "ostler-pool",
    "ostler: pool",
    "Is the pool doing its job: are seats there before they are asked for, and at what price?",
    (
        Panel("Ready", "1 while a fresh start can be expected to succeed.", (Query("ostler_ready"),), number=True),
        Panel(
            "Turns that waited for nothing",
            "Share of claims served by the session's own seat or a parked one.",
            (Query(f"sum(rate({CLAIMS}{{{WARM}}}{RATE})) / sum(rate({CLAIMS}{{{P}}}{RATE}))"),),
            "percentunit", number=True,
        ),
        Panel("Waiting claims", "Callers without a seat yet.",
              (Query(total("ostler_pool_waiting", "provider"), "{{provider}}"),), number=True),
        Panel(
            "Memory against the budget",
            "What the pool counts; the budget is 0 where there is none.",
            (Query("ostler_pool_memory_bytes", "counted"), Query("ostler_pool_memory_budget_bytes", "budget")),
            "bytes",
        ),
        Panel("Claims by warmth", "own: the session's own seat; cold and fallback waited for a process.",
              (Query(rate(CLAIMS, "warmth"), "{{warmth}}"),), "ops", stacked=True),
        Panel("Why no parked seat was there", "The reason of each claim that was not served at once.",
              (Query(rare(CLAIMS, "reason", f'{P}, reason!="none"'), "{{reason}}"),), "ops", stacked=True),
        Panel("Wait for a seat", "From claim to grant.",
              both("ostler_pool_claim_wait_seconds", "warmth", "{{warmth}}"), "s"),
        Panel("Reserve", "Parked seats wanted and there.",
              (Query(total("ostler_pool_reserve_seats", "kind, provider, place"), "{{provider}} {{place}} {{kind}}"),)),
        Panel("Processes", "By state.",
              (Query(total("ostler_pool_processes", "state"), "{{state}}"),
               Query("ostler_pool_process_limit", "limit"))),
        Panel("Seats", "By state.", (Query(total("ostler_pool_seats", "state"), "{{state}}"),), stacked=True),
        Panel("Refused claims", "By cause.", (Query(rare("ostler_pool_refusals_total", "cause"), "{{cause}}"),), "ops"),
        Panel("Recycled processes", "By cause.",
              (Query(rare("ostler_pool_recycles_total", "cause"), "{{cause}}"),), "ops"),
    ),
)  # fmt: skip

COLD = Board(
    "ostler-cold-start",
    "ostler: cold start",
    "What a turn waits for before its agent works, in the pool and with a process of its own.",
    (
        Panel("Turns by transport", "pool: shared processes; agent: one of its own; none: no agent was reached.",
              (Query(rate("ostler_turns_total", "transport"), "{{transport}}"),), "ops", stacked=True),
        Panel("Wait before the prompt, pool and agent", "spawn and session_new together, on average.",
              (Query(f'sum by (transport) (rate({PHASES}_sum{{{P}, phase=~"spawn|session_new"}}{RATE}))'
                     f' / sum by (transport) (rate({PHASES}_count{{{P}, phase="spawn"}}{RATE}))', "{{transport}}"),),
              "s"),
        Panel("Where the time goes", "Average of each phase.",
              (Query(f'sum by (transport, phase) (rate({PHASES}_sum{{{P}, phase!~"total|first_token"}}{RATE}))'
                     f' / sum by (transport, phase) (rate({PHASES}_count{{{P}, phase!~"total|first_token"}}{RATE}))',
                     "{{transport}} {{phase}}"),), "s", stacked=True),
        Panel("Spawn", "What turns waited for a process.",
              both(PHASES, "transport", "{{transport}}", f'{P}, phase="spawn"'), "s"),
        Panel("session_new", "What turns waited for an agent session.",
              both(PHASES, "transport", "{{transport}}", f'{P}, phase="session_new"'), "s"),
        Panel("First token", "From the prompt to the first text.",
              both(PHASES, "transport", "{{transport}}", f'{P}, phase="first_token"'), "s"),
        Panel("First tool", "From the prompt to the first tool call.",
              both(PHASES, "transport", "{{transport}}", f'{P}, phase="first_tool"'), "s"),
        Panel("Process start", "From spawn to handshake.",
              both("ostler_pool_start_seconds", "provider", "{{provider}}", f'{P}, outcome="started"'), "s"),
        Panel("Fallbacks", "Turns that tried a process of their own, by the phase in which the pool's start failed.",
              (Query(rare("ostler_pool_fallbacks_total", "phase"), "{{phase}}"),), "ops"),
    ),
)  # fmt: skip

SESSIONS = Board(
    "ostler-sessions",
    "ostler: sessions",
    "What clients see: turns, errors, latency, streams; and what stands behind them: store, loop.",
    (
        Panel("Sessions", "In memory.", (Query("ostler_sessions", "{{state}}"),), stacked=True),
        Panel("Turns by outcome", "How they ended.",
              (Query(rate("ostler_turns_total", "outcome"), "{{outcome}}"),), "ops", stacked=True),
        Panel("Failed turns", "By error code.",
              (Query(rare("ostler_turn_failures_total", "code"), "{{code}}"),), "ops"),
        Panel("Whole turns", "From the request to the end.",
              both(PHASES, "provider", "{{provider}}", f'{P}, phase="total"'), "s"),
        Panel("Queue", "Waiting for the session's earlier turns and for a place.",
              both(PHASES, "provider", "{{provider}}", f'{P}, phase="queue"'), "s"),
        Panel("Tokens", "As agents report them.",
              (Query(rate("ostler_turn_tokens_total", "direction"), "{{direction}}"),), "ops"),
        Panel("Histories that were cut", "Turns whose agent was not told the whole conversation.",
              (Query(rare("ostler_turn_histories_cut_total", "provider"), "{{provider}}"),), "ops"),
        Panel("Requests", "By status.",
              (Query(rate("ostler_http_requests_total", "status", ""), "{{status}}"),), "reqps", stacked=True),
        Panel("Request duration", "To the last byte; a stream lasts as long as its turn.",
              both("ostler_http_request_seconds", "route", "{{route}}", 'method="POST"'), "s"),
        Panel("Streams and clients that left", "",
              (Query("ostler_http_streams", "streams"),
               Query(rare("ostler_http_disconnects_total", "route", ""), "left {{route}}"))),
        Panel("Durable writes", "From handing over to durable.",
              (Query(f"histogram_quantile(0.5, sum by (le) (rate(ostler_store_write_seconds_bucket{RATE})))", "p50"),
               Query(f"histogram_quantile(0.99, sum by (le) (rate(ostler_store_write_seconds_bucket{RATE})))", "p99")),
              "s"),
        Panel("Writes that share a sync", "Average.",
              (Query(f"rate(ostler_store_batch_size_sum{RATE}) / rate(ostler_store_batch_size_count{RATE})"),)),
        Panel("Database", "", (Query("ostler_store_bytes", "file"), Query("ostler_store_wal_bytes", "log")), "bytes"),
        Panel("Writes that failed", "By kind.", (Query(rare("ostler_store_errors_total", "kind", ""), "{{kind}}"),),
              "ops"),
        Panel("Recalling", "What turns wait for before they ask their agent; by memory.",
              (Query(quantile(0.5, "ostler_memory_prefetch_seconds", "memory", ""), "{{memory}} p50"),
               Query(quantile(0.99, "ostler_memory_prefetch_seconds", "memory", ""), "{{memory}} p99")), "s"),
        Panel("What was recalled", "late and skipped: the turn went on without it.",
              (Query(rate("ostler_memory_prefetch_seconds_count", "memory, outcome", ""), "{{memory}} {{outcome}}"),),
              "ops", stacked=True),
        Panel("What memories were told", "lost: behind too many others.",
              (Query(rate("ostler_memory_calls_total", "memory, outcome", ""), "{{memory}} {{outcome}}"),), "ops"),
        Panel("Calls that wait for a memory", "", (Query("ostler_memory_calls_waiting", "{{memory}}"),)),
        Panel("How late memories are told", "From what happened to the end of the call.",
              (Query(quantile(0.99, "ostler_memory_lag_seconds", "memory", ""), "{{memory}} p99"),), "s"),
        Panel("Loop lag", "How late the event loop is for an appointment.",
              (Query(f"histogram_quantile(0.99, sum by (le) (rate(ostler_loop_lag_seconds_bucket{RATE})))", "p99"),),
              "s"),
        Panel("Processor and memory of the gateway", "",
              (Query(f"rate(process_cpu_seconds_total{RATE})", "processors"),)),
        Panel("Resident memory of the gateway", "", (Query("process_resident_memory_bytes", "resident"),), "bytes"),
    ),
)  # fmt: skip

AGENTS = Board(
    "ostler-agents",
    "ostler: agents",
    "How the agents behave: starts, deaths, memory, leaks, tools.",
    (
        Panel("Starts", "By outcome and, for a failed one, its phase.",
              (Query(rate("ostler_pool_starts_total", "provider, outcome, phase"),
                     "{{provider}} {{outcome}} {{phase}}"),), "ops"),
        Panel("Failures in a row", "Starts that failed since the last good one.",
              (Query(total("ostler_pool_start_failures", "provider"), "{{provider}}"),)),
        Panel("Keys that may not be started now", "Because starts failed.",
              (Query(total("ostler_pool_breakers_waiting", "provider"), "{{provider}}"),)),
        Panel("Deaths", "Processes that died by themselves.",
              (Query(rare("ostler_pool_deaths_total", "provider"), "{{provider}}"),), "ops"),
        Panel("Orphans", "Processes that an earlier run of the gateway left and this one ended.",
              (Query("ostler_pool_orphans_reaped_total", "ended at the start"),)),
        Panel("Memory", "Proportional, of the whole process trees.",
              (Query(total("ostler_pool_agent_memory_bytes", "provider"), "{{provider}}"),), "bytes"),
        Panel("Opened sessions", "By outcome.",
              (Query(rate("ostler_pool_opens_total", "provider, outcome"), "{{provider}} {{outcome}}"),), "ops"),
        Panel("Opening a session", "With its tools attached.",
              both("ostler_pool_open_seconds", "provider", "{{provider}}", f'{P}, outcome="opened"'), "s"),
        Panel("Leaked sessions", "That the agent did not end.",
              (Query(rare("ostler_pool_leaked_seats_total", "provider"), "{{provider}}"),), "ops"),
        Panel("Dropped updates", "stray: of no session; late: of no turn; stale: of an earlier one; junk: no message.",
              (Query(rate("ostler_pool_dropped_updates_total", "provider, kind"), "{{provider}} {{kind}}"),), "ops"),
        Panel("Tool calls", "By outcome.",
              (Query(rate("ostler_bridge_calls_total", "outcome", ""), "{{outcome}}"),), "ops", stacked=True),
        Panel("Duration of a tool call", "Average.",
              (Query(f"rate(ostler_bridge_call_seconds_sum{RATE})"
                     f" / (rate(ostler_bridge_call_seconds_count{RATE}) > 0) or vector(0)"),), "s"),
        Panel("Relays", "Connected with a valid token.", (Query("ostler_bridge_relays", "relays"),)),
        Panel("Refused connections", "By cause.",
              (Query(rate("ostler_bridge_refusals_total", "cause", ""), "{{cause}}"),), "ops"),
    ),
)  # fmt: skip

BOARDS = (POOL, COLD, SESSIONS, AGENTS)
