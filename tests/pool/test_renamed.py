"""Old public names lead to the new things for one release, and say so."""

from importlib import import_module

import pytest

OLD = (
    ("ostler.pool.events", "Reason", "StopReason"),
    ("ostler.pool.provider", "Finder", "CommandFinder"),
    ("ostler.pool.provider", "Wanted", "ProviderNeeds"),
    ("ostler.pool.permission", "Person", "AskPerson"),
    ("ostler.bridge.tool", "Outcome", "ToolOutcome"),
)


@pytest.mark.parametrize(("module", "old", "new"), OLD)
def test_an_old_name_is_the_new_thing_and_warns(module: str, old: str, new: str) -> None:
    home = import_module(module)
    with pytest.warns(DeprecationWarning, match=f"is now called {new}"):
        assert vars(home)["__getattr__"](old) is vars(home)[new]
    with pytest.raises(AttributeError, match="no attribute 'never_there'"):
        vars(home)["__getattr__"]("never_there")
