"""Where sessions are kept: one module or package for each store, and what belongs to none of them.

Rules of this package: `gateway/model/store.py` says what a store can do, `tests/contracts/stores` proves it of every
one. The mirror and the lock of the data folder are beside the stores, because any store may have them.
"""
