"""The gateway: sessions, turns, the HTTP API, chat surfaces and commands, and the only composition root of the product.

Rules:
- The gateway imports `pool`, `bridge`, `process`, `wire` and `metrics`; none of them imports the gateway.
- Its floors, lowest first: `model`, `config`, `stores`, `memory`, `turns`, `chat`, `http`, `ops`, `server`, `cli`. A
  floor imports only the floors below it; import-linter enforces the order.
- `__main__.py`, `exit_codes.py` and `interrupts.py` belong to no floor: every command pays for importing them.
"""
