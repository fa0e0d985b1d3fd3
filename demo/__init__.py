"""The demo agent: a real ACP subprocess, no model, no network. A fresh install works with it.

Rules of this package: standard library only, and only what is cheap to import. No asyncio, typing,
dataclasses, pathlib or argparse on the way to the first answer: a bare interpreter takes 6 ms, those five
would add 40. It is started as `python -I -S -E <this folder> agent demo [flags]`, which needs no site-
packages.
"""
