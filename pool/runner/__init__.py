"""Performs what the core decides: the engine, the live processes and seats, launches, warm keys.

Rules:
- The highest floor of the pool: imports `agent`, `launch`, `core`, the public values (`pool/*.py`) and the process
  room. None of the lower floors imports this package; only the public face does.
- Nothing here decides about keys, slots, seats or leases: `Engine` passes events to the core and performs its actions.
- A process is three objects: the core's `SlotRecord`, `LiveProcess`, and `Transport`. A seat is three: the core's
  `SeatRecord`, `LiveSeat`, and the `Lease` of its holder.
- Everything runs on the pool's loop. What may block (files, disks) runs on threads, through `BlockingProbe`.
"""
