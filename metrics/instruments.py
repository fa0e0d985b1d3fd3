"""Every instrument of ostler, declared once: name, help, labels. Grouped by the component that counts.

Rules:
- No label holds a session, a token, an id or a path; a directory only as the alias that an operator gave it (`place`).
- The help text defines the number; a timer's help says where it starts and where it stops, and that never changes.
"""

from ostler.metrics.registry import MetricRegistry

PATIENT = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Bucket bounds for work of agents, in seconds."""
FINE = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Bucket bounds for the disk and the event loop, in seconds."""
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)

P, M = "provider", "model"


class PoolInstruments:
    """The pool: claims, starts, opens, and what it holds now."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.claims = registry.counter(
            "ostler_pool_claims_total",
            "Seats handed to turns, by the worst step the claimer waited for (own: the session's own seat) and by why"
            " no parked seat was there.",
            *(P, M, "warmth", "reason"),
        )
        self.claim_wait = registry.histogram(
            "ostler_pool_claim_wait_seconds", "From the claim of a seat to its grant.", P, "warmth", bounds=PATIENT
        )
        self.refusals = registry.counter("ostler_pool_refusals_total", "Claims that were refused.", P, M, "cause")
        self.starts = registry.counter(
            "ostler_pool_starts_total", "Process starts that ended; phase is where a failed one ended.",
            *(P, "outcome", "phase"),
        )  # fmt: skip
        self.start_seconds = registry.histogram(
            "ostler_pool_start_seconds", "From the spawn to the answered handshake, or to the failure.", P, "outcome",
            bounds=PATIENT,
        )  # fmt: skip
        self.opens = registry.counter("ostler_pool_opens_total", "Agent sessions opened or loaded.", P, "outcome")
        self.open_seconds = registry.histogram(
            "ostler_pool_open_seconds",
            "From the order to open an agent session to the session with its tools attached, or to the failure.",
            *(P, "outcome"), bounds=PATIENT,
        )  # fmt: skip
        self.recycles = registry.counter(
            "ostler_pool_recycles_total", "Processes that were retired, by cause.", P, "cause"
        )
        self.deaths = registry.counter("ostler_pool_deaths_total", "Processes that died by themselves.", P)
        self.fallbacks = registry.counter(
            "ostler_pool_fallbacks_total", "Turns that tried a process of their own after a failed start.", P, "phase"
        )
        self.leaks = registry.counter(
            "ostler_pool_leaked_seats_total", "Agent sessions that their agent did not end when told to.", P
        )
        self.reaped = registry.totals(
            "ostler_pool_orphans_reaped_total",
            "Processes that an earlier run left and that this one ended at its start.",
        )
        self.dropped = registry.totals(
            "ostler_pool_dropped_updates_total",
            "Messages of agents that belong to no session (stray), to no turn (late), to an earlier turn (stale), or "
            "are no messages (junk).",
            *(P, "kind"),
        )
        self.notes = registry.counter(
            "ostler_pool_notes_total", "Everything else the pool noted: breakers, budget, bugs.", P, "what", "cause"
        )
        self.processes = registry.levels("ostler_pool_processes", "Agent processes by state.", P, "state")
        self.seats = registry.levels("ostler_pool_seats", "Agent sessions: leased, parked, opening.", P, "state")
        self.waiting = registry.levels("ostler_pool_waiting", "Claims that wait for a seat.", P, M)
        self.reserve = registry.levels(
            "ostler_pool_reserve_seats", "Parked seats of a key: what the pool wants (target), and has (actual).",
            *(P, M, "place", "kind"),
        )  # fmt: skip
        self.failures = registry.levels("ostler_pool_start_failures", "Starts that failed since the last good one.", P)
        self.breakers = registry.levels(
            "ostler_pool_breakers_waiting", "Keys that may not be started now because starts failed.", P
        )
        self.agent_memory = registry.levels(
            "ostler_pool_agent_memory_bytes", "Proportional memory of the agents' process trees.", P
        )
        self.memory = registry.gauge("ostler_pool_memory_bytes", "What the pool counts against its memory budget.")
        self.budget = registry.gauge("ostler_pool_memory_budget_bytes", "The memory budget; 0: there is none.")
        self.process_limit = registry.gauge("ostler_pool_process_limit", "Processes that may live at once.")
        self.enabled = registry.gauge("ostler_pool_enabled", "1: processes are shared; 0: one for each session.")


class TurnInstruments:
    """Turns: their outcomes, and where their time went."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.turns = registry.counter(
            "ostler_turns_total",
            "Turns that ended. transport: pool, agent (a process of its own), or none (no agent was reached).",
            *(P, "transport", "outcome"),
        )
        self.failures = registry.counter("ostler_turn_failures_total", "Failed turns by error code.", P, "code")
        self.phases = registry.histogram(
            "ostler_turn_phase_seconds",
            "Where the time of a turn went. queue: waiting for the session's turn and for a place in the pool; store:"
            " making the question durable; spawn:"
            " its wait for a process; session_new: its wait for an agent session; bridge: publishing its tools;"
            " first_tool: prompt to first tool call; first_token: prompt to first text; generation: the rest of the"
            " answer; total: from the request to the end.",
            *(P, "transport", "phase"), bounds=PATIENT,
        )  # fmt: skip
        self.tokens = registry.counter(
            "ostler_turn_tokens_total", "Tokens as agents report them; not all do.", P, M, "direction"
        )
        self.cut = registry.counter(
            "ostler_turn_histories_cut_total",
            "Turns whose agent was not told the whole conversation, because its prompt has a limit.",
            P,
        )
        self.sessions = registry.levels("ostler_sessions", "Sessions in memory: running a turn, or resting.", "state")


class BridgeInstruments:
    """The bridge: tool calls, and the connections of relays."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.calls = registry.totals(
            "ostler_bridge_calls_total", "Tool calls that ended: ok, failed, or ended (their turn was over).", "outcome"
        )
        self.seconds = registry.summary("ostler_bridge_call_seconds", "From a tool call to its result.")
        self.running = registry.gauge("ostler_bridge_calls_running", "Tool calls under way.")
        self.refusals = registry.totals("ostler_bridge_refusals_total", "Connections that were refused.", "cause")
        self.lost = registry.totals(
            "ostler_bridge_tools_lost_total",
            "Agent sessions that could reach their tools no more: the relay ended, stayed away, or another process "
            "showed its token (shown_twice).",
            "reason",
        )
        self.relays = registry.gauge("ostler_bridge_relays", "Connections with a valid token.")
        self.connections = registry.totals("ostler_bridge_connections_total", "Connections, of whatever kind.")
        self.reconnects = registry.totals("ostler_bridge_reconnects_total", "Relays that came back.")
        self.dropped = registry.totals("ostler_bridge_dropped_frames_total", "Frames that were no requests.")


class GatewayInstruments:
    """The gateway: HTTP, the event loop, the process."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.requests = registry.counter(
            "ostler_http_requests_total", "Requests that were answered, by route template.", "method", "route", "status"
        )
        self.seconds = registry.histogram(
            "ostler_http_request_seconds", "From the request to the last byte of its answer.", "method", "route",
            bounds=PATIENT,
        )  # fmt: skip
        self.streams = registry.gauge("ostler_http_streams", "Answers being streamed now.")
        self.disconnects = registry.counter(
            "ostler_http_disconnects_total", "Clients that left before their answer was whole.", "route"
        )
        self.ready = registry.gauge("ostler_ready", "1: /readyz is green.")
        self.draining = registry.gauge("ostler_draining", "1: no new turns are taken.")
        self.lag = registry.histogram(
            "ostler_loop_lag_seconds", "How late the event loop was for an appointment.", bounds=FINE
        )
        self.build = registry.gauge("ostler_build_info", "Always 1; the labels tell what runs.", "version", "python")


class StoreInstruments:
    """The store: durable writes and file sizes."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.seconds = registry.histogram(
            "ostler_store_write_seconds", "From handing a write over to it being durable.", bounds=FINE
        )
        self.batch = registry.histogram("ostler_store_batch_size", "Writes that shared one sync.", bounds=SIZES)
        self.errors = registry.counter("ostler_store_errors_total", "Writes that were not stored.", "kind")
        self.wal = registry.gauge("ostler_store_wal_bytes", "Size of the write-ahead log.")
        self.size = registry.gauge("ostler_store_bytes", "Size of the database file.")


class MemoryInstruments:
    """Memories between conversations. `memory` names the memory provider, never a user or a session."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.prefetch = registry.histogram(
            "ostler_memory_prefetch_seconds",
            "How long a turn waited for what a memory recalls; skipped: it was not asked, because it is not there or"
            " has not come back from an earlier question.",
            *("memory", "outcome"), bounds=PATIENT,
        )  # fmt: skip
        self.calls = registry.counter(
            "ostler_memory_calls_total",
            "What memories were told: done, failed, or lost behind too many others.",
            *("memory", "call", "outcome"),
        )  # fmt: skip
        self.lag = registry.histogram(
            "ostler_memory_lag_seconds", "From what happened to the end of the call that tells a memory of it.",
            "memory", bounds=PATIENT,
        )  # fmt: skip
        self.waiting = registry.levels(
            "ostler_memory_calls_waiting",
            "Calls that a memory still has to take, the running one among them.",
            "memory",
        )


class Instruments:
    """All instrument groups of one gateway."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.registry = registry
        self.pool = PoolInstruments(registry)
        self.turns = TurnInstruments(registry)
        self.bridge = BridgeInstruments(registry)
        self.gateway = GatewayInstruments(registry)
        self.store = StoreInstruments(registry)
        self.memory = MemoryInstruments(registry)
