"""One agent process: its transport, its connection, the codecs, and the sessions and turns on it.

Rules:
- May import `pool.launch`, `pool.providers`, the modules at the top of `pool`, `ostler.process` and `ostler.wire`.
  Never `pool.runner` (import-linter), `bridge` or `gateway`.
- Decides nothing about sharing: `pool.core` decides which process serves which session, and for how long.
- Codecs and the replay check are sans-io; only `connection.py` writes to an agent or reads from it.
"""
