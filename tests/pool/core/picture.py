"""The pool state in one line, so that a failed walk shows where it stood."""

from typing import Any


def describe(state: Any) -> str:
    """`a: #1 ready 1+2p wait 0 | spare #3 starting 0`. Of any: a mutated copy of the package has records of its own."""
    parts = [
        f"{key_state.key}: {' '.join(map(_slot_words, key_state.slots.values())) or '-'} wait {key_state.waiting}"
        for key_state in state.keys.values()
    ]
    parts += [f"spare {_slot_words(slot)}" for slot in state.spares.values()]
    return " | ".join(parts) + (" closed" if state.closed else "")


def _slot_words(slot: Any) -> str:
    words = f"#{slot.id} {slot.state.value} {len(slot.leases)}"
    for count, mark in ((slot.parked, "p"), (slot.opening, "o")):
        if count:
            words += f"+{count}{mark}"
    return words + (f" ({slot.retire.value})" if slot.retire else "")
