"""The running gateway: the composition root (`app.py`, `assembly/`), the listener and the admin socket, signals, and
the process's own memory and imports.

May import every floor below (`ops` to `model`), the pool and the bridge. The CLI and embedding programs import it.

Rules: only `app.py` and `assembly/` name the concrete classes. Everything that is opened here is closed here.
"""
