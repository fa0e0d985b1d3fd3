"""Performs what the core decides: actions, live objects, launches, warm keys.

Rules:
- May import every other package of the pool (`agent`, `launch`, `providers`, `core`) and the process room; none of them
  imports this package. Only the public face (`pool/*.py`) does.
- Nothing here decides about keys, slots, seats or leases: `Engine` passes events to the core and performs its actions.
- Everything runs on the pool's loop. What may block (files, disks) runs on threads, through `BlockingProbe`.
"""
