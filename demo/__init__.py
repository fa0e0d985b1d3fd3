"""The demo agent: a real ACP subprocess, no model, no network. A fresh install works with it.

Rules of this package: imports only the standard library and `ostler.wire`, and only modules that are cheap to import.
No asyncio, typing, dataclasses, pathlib or argparse before the first answer: a bare interpreter takes 6 ms, those five
would add 40. It is started as `python -I -S -E <this folder>/__main__.py agent demo [flags]`, which needs no
site-packages. The pool knows it only by its command.
"""
