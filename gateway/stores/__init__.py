"""The stores that keep sessions, one module or package for each, and what any store may have beside it.

Imports `model`, `config` and the leaf rooms; nothing of the floors above.

Rules:
- `gateway/model/store.py` says what a store can do; `tests/contracts/stores` proves it of every store.
- The mirror and the lock of the data folder are no part of a store: they work with any store.
"""
