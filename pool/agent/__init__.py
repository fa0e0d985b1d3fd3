"""One agent process: its transport, its connection, the codecs, and the sessions and turns on it.

Rules:
- May import `pool.launch`, `pool.providers`, the modules at the top of `pool`, and the rooms `process` and `wire`.
  Never `pool.runner` (import-linter), `bridge` or `gateway`.
- Decides nothing about the pool: which process serves whom, and for how long, is decided by `pool.core`.
- Codecs, gates' limits and replay checks are sans-io; `connection.py` alone writes to an agent and reads from it.
"""
