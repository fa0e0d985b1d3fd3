"""Seeded defects of the pool core: each is one patch of one module, and the walk must see it.

A mutant is a whole copy of the package under a name that is not the package's, so its events, enums and records are its
own too. All have the same name: nobody finds them by it once they are loaded, and what is alike is compiled once.
"""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

import ostler.pool.core as original

HOME = Path(str(original.__file__)).parent


@dataclass(frozen=True)
class Mutant:
    name: str
    module: str
    old: str
    new: str


class _Copy(MetaPathFinder, Loader):
    """Imports the package's patched sources under another name."""

    def __init__(self, package: str, sources: dict[str, str]) -> None:
        self.package, self.sources = package, sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.package and not fullname.startswith(self.package + "."):
            return None
        return ModuleSpec(fullname, self, is_package=fullname == self.package)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.removeprefix(self.package).lstrip(".") or "__init__"
        exec(_compiled(self.sources[name], f"<{module.__name__}>"), module.__dict__)


@cache
def _compiled(source: str, name: str) -> CodeType:
    return compile(source, name, "exec")


def load(mutant: Mutant) -> ModuleType:
    package = "mutated"
    sources = {path.stem: path.read_text() for path in HOME.glob("*.py")}
    assert sources[mutant.module].count(mutant.old) == 1, f"{mutant.name} does not apply exactly once"
    sources[mutant.module] = sources[mutant.module].replace(mutant.old, mutant.new)
    renamed = {name: text.replace("ostler.pool.core", package) for name, text in sources.items()}
    finder = _Copy(package, renamed)
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(package)
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] == package]:
            del sys.modules[name]


MUTANTS = (
    Mutant("pool_cap_by_one", "starts", ">= state.limits.max_processes:", "> state.limits.max_processes:"),
    Mutant(
        "dying_not_counted",
        "starts",
        "if len(state.slots) >= state.limits.max_processes:",
        "if sum(s.state.value != 'closing' for s in state.slots.values()) >= state.limits.max_processes:",
    ),
    Mutant(
        "key_cap_by_one",
        "starts",
        "if not spare and len(key_state.slots) >= key_cap(state, key_state):",
        "if not spare and len(key_state.slots) > key_cap(state, key_state):",
    ),
    Mutant(
        "adoption_over_key_cap",
        "starts",
        "    if len(key_state.slots) >= key_cap(state, key_state):\n        return None\n",
        "",
    ),
    Mutant("starting_by_one", "starts", "if state.starting >= limits", "if state.starting > limits"),
    Mutant("provider_by_one", "starts", "return alike >= state", "return alike > state"),
    Mutant("free_starts", "starts", "state.tokens -= 1.0", "state.tokens -= 0.0"),
    Mutant("weightless_start", "starts", "is_tight(state, _expected(key_state))", "is_tight(state, 0)"),
    Mutant("many_trials", "starts", "return Denial.STARTING if trying else None", "return None"),
    Mutant("no_backoff", "breaker", "if failures <= 1:", "if failures <= 2:"),
    Mutant("no_pause_for_room", "breaker", "claims_after = now + min(pause,", "claims_after = now + 0.0 * min(pause,"),
    Mutant("room_by_who_was_there", "breaker", "if ready_at > self.shortages.at:", "if ready_at >= 0.0:"),
    Mutant("overfull_process", "records", "self.capacity - len(self.seats)", "self.capacity + 1 - len(self.seats)"),
    Mutant(
        "unshared_shared", "records", "is CoreSharing.NONE and self.opened:", "is CoreSharing.NONE and self.opened > 1:"
    ),
    Mutant("idle_though_promised", "records", "not self.leases and not self.opening", "not self.leases"),
    Mutant("gone_frees_nobody", "state", "self.recount_spares = True\n        self.capacity_changed = True", "pass"),
    Mutant(
        "lease_stays_on_slot",
        "state",
        "del self.leases[lease], slot.leases[lease]",
        "del self.leases[lease]",
    ),
    Mutant("broken_under_a_lease_untold", "failures", "elif seat.lease is not None:", "elif not seat.lease:"),
    Mutant("broken_under_a_lease_closed", "failures", "if seat.state is SeatState.PARKED:", "if seat:"),
    Mutant("used_reserve_taken", "records", "return fresh and not self.served and", "return fresh and"),
    Mutant(
        "reserve_over_key_cap",
        "starts",
        "    if len(key_state.slots) >= key_cap(state, key_state):\n        return False\n",
        "",
    ),
    Mutant("opens_left_behind", "state", "                before.opening -= 1\n", ""),
    Mutant("memory_never_freed", "state", "        self.charge(slot, 0)\n", ""),
    Mutant(
        "last_first",
        "queueing",
        "return next(iter(claims.values()))",
        "return next(reversed(claims.values()))",
    ),
    Mutant("no_round_robin", "queueing", "self.owners.move_to_end(owner)", "pass"),
    Mutant("turns_kept", "queueing", "del self.waiting[owner], self.last[owner]", "del self.waiting[owner]"),
    Mutant("used_seat_kept", "client_events", "    close_seat(state, seat)\n    finish", "    finish"),
    Mutant(
        "used_seat_parked",
        "client_events",
        "    close_seat(state, seat)\n    finish",
        "    seat.queue.parked[seat.id] = seat\n    finish",
    ),
    Mutant(
        "grant_lost_on_abandon",
        "client_events",
        "    return _release(state, state.granted",
        "    return None and (state.granted",
    ),
    Mutant("endless_queue", "client_events", "len(state.claims) > state.limits.max_queue", "len(state.claims) > 10**6"),
    Mutant(
        "old_generation_used",
        "client_events",
        "elif slot.state is SlotState.READY:",
        "elif slot.state is SlotState.GONE:",
    ),
    Mutant("drain_still_served", "draining", "    shun(state, slot)\n    state.enter", "    state.enter"),
    Mutant("lost_untold", "draining", "    if leases:\n", "    if not leases:\n"),
    Mutant("lost_only_once_in_a_while", "draining", "        state.end_lease(seat)\n", "        pass\n"),
    Mutant("endless_drain", "sweep", "if _due(state, slot.since, state.limits.drain_timeout):", "if False:"),
    Mutant("endless_start", "sweep", "if _due(state, slot.since, state.limits.start_timeout):", "if False:"),
    Mutant("unanswered_stop", "sweep", "if _due(state, slot.since, state.limits.stop_timeout):", "if False:"),
    Mutant("endless_open", "sweep", "if _due(state, seat.since, state.limits.open_timeout)", "if False"),
    Mutant(
        "deadline_ignored",
        "sweep",
        "if state.now >= waiting.deadline:",
        "if state.now >= waiting.deadline + 9:",
    ),
    Mutant(
        "idle_from_birth",
        "sweep",
        "_due(state, slot.used_at, state.limits.idle_after)",
        "_due(state, slot.born, state.limits.idle_after)",
    ),
    Mutant("pause_ignored", "settle", "if state.paused or key_state.paused:", "if state.paused:"),
    Mutant("nobody_fed", "settle", "while state.capacity_changed and state.unserved_keys:", "while False:"),
    Mutant(
        "waiters_forgotten", "operator_events", "        refuse(state, waiting, RefusalKind.CLOSED)\n", "        pass\n"
    ),
    Mutant(
        "alive_after_shutdown",
        "operator_events",
        "stop(state, slot, RetireReason.SHUTDOWN, hard=False, text",
        "(lambda *a, **k: 0)(state, slot, hard=False, text",
    ),
    Mutant(
        "failure_untold",
        "failures",
        "        refuse_unserved(state, slot.key_state, phase, text)\n",
        "        pass\n",
    ),
    Mutant("everybody_alike", "failures", "if key_state.spec.group == group and not", "if not"),
    Mutant(
        "alike_without_end",
        "failures",
        "retry_after = state.breakers[group].claims_after - state.now",
        "retry_after = 0.0",
    ),
    Mutant("alike_beside_hope", "failures", " or key_state.slots):", "):"),
    Mutant("cold_called_warm", "outcomes", "if slot.ready_step > waiting.step:", "if slot.ready_step < 0:"),
    Mutant(
        "parked_too_soon",
        "outcomes",
        "seat.parked_step < waiting.step",
        "seat.parked_step <= waiting.step + 1",
    ),
    Mutant("made_seat_keeps_its_place", "process_events", "    state.mark_open_answered(seat)\n", ""),
    Mutant("lease_left_on_its_seat", "state", "        seat.lease = None\n", ""),
    Mutant("resume_token_lost", "opens", "queue.tools, queue.resume))", "queue.tools, None))"),
    Mutant(
        "resumed_seat_for_anybody",
        "client_events",
        "(event.tools, None if event.resume is None else event.claim)",
        "(event.tools, None)",
    ),
    Mutant("opens_in_parallel", "opens", "open_group(slot), 0) >= limit", "open_group(slot), 0) > limit"),
    Mutant(
        "waiters_not_opened_for",
        "opens",
        "queue.claims.count > queue.opening]",
        "queue.claims.count > queue.opening + 1]",
    ),
    Mutant(
        "leased_evicted",
        "budget",
        "and slot.idle and slot.key_state is not key_state",
        "and slot.key_state is not key_state",
    ),
    Mutant("promised_evicted", "budget", "return not slot.served or state", "return state"),
    Mutant("nothing_evicted", "budget", "victim = _least_used(state, key_state)", "victim = None"),
    Mutant("spent_and_kept", "recycling", "    stop(state, slot, slot.retire, hard=False)\n", ""),
    Mutant("ceiling_said_again", "recycling", "            key_state.ceiling_off = True\n", ""),
    Mutant("limits_ignored", "operator_events", "    state.limits = event.limits\n", ""),
    Mutant("old_rate_forgotten", "operator_events", "    earn(state)\n", "    state.tokens_at = -99.0\n"),
    Mutant(
        "raised_limits_feed_nobody",
        "operator_events",
        "    state.mark_all_unserved()\n    return None\n\n\ndef recycle",
        "    return None\n\n\ndef recycle",
    ),
    Mutant("over_the_cap_for_ever", "sweep", "    shrink(state)\n", ""),
    Mutant("cooled_and_kept", "reserve", "    if key_state.cool:\n        return 0\n    now", "    now"),
    Mutant("starts_beside_a_first_answer", "starts", "and not start_is_deferred(state, key_state) and", "and"),
    Mutant("spares_beside_a_first_answer", "starts", "elif spare_is_deferred(state, key_state):", "elif False:"),
    Mutant("opens_beside_a_first_answer", "opens", "(ahead and open_is_deferred", "(False and open_is_deferred"),
    Mutant("gave_way_before_the_calm", "deferral", " or before <= state.calm_at else", " else"),
    Mutant("answer_not_heard", "client_events", "    state.mark_answered(slot)\n", ""),
    Mutant("listens_for_ever", "sweep", "    state.stop_listening()\n", ""),
    Mutant("deadlock_waits", "machine", "if state.nested:", "if False:"),
    Mutant("leak_keeps_seat", "opens", "    state.remove_seat(seat)\n    state.note", "    state.note"),
)
