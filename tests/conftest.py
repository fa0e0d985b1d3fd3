"""What holds for every test: the long ones begin first, so that no run ends with one worker waiting for the other.

The collector of garbage rests until all tests are known, and from then on leaves alone what was imported: the half
million objects of the modules live as long as the worker, and looking at them took a tenth of its time. After that it
comes more rarely than usual, which saves another twelfth; tests that need it call it. What a test imports besides, at
its first use, is left alone from the end of that test on.

A run in the background (`make test &`, `nohup`) ignores SIGINT, and so would every program that a test starts and
interrupts: here it is as in a terminal.

No example of a property test has a time limit: on a busy machine it would say how busy that is.
"""

import gc
import os
import signal
import sys
import tempfile

import pytest
from hypothesis import settings

from tests.support.scratch import use_memory

IMPORTED = pytest.StashKey[int]()
MANY = 50
"""Modules that are worth a look less: so many come with a client's library, and few with anything else."""

gc.disable()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
use_memory(os.environ)
tempfile.tempdir = None  # whoever had looked, looks again
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[IMPORTED] = len(sys.modules)
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    if len(sys.modules) >= item.config.stash[IMPORTED] + MANY:
        item.config.stash[IMPORTED] = len(sys.modules)
        gc.freeze()
