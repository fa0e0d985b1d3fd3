"""Two tool sets are the same set exactly when an agent would see the same tools."""

from ostler.pool.ports import ToolSet

ECHO = {"name": "echo", "description": "says it again", "inputSchema": {"type": "object", "properties": {}}}
TIME = {"name": "time", "inputSchema": {"type": "object"}}


def test_no_tools_have_no_fingerprint() -> None:
    assert ToolSet().fingerprint == ""
    assert ToolSet() == ToolSet(())


def test_the_fingerprint_ignores_how_a_definition_was_written() -> None:
    turned = {key: ECHO[key] for key in reversed(list(ECHO))}
    assert ToolSet((ECHO,)).fingerprint == ToolSet((turned,)).fingerprint


def test_w09_every_difference_an_agent_would_see_changes_the_fingerprint() -> None:
    sets = [
        ToolSet((ECHO,)),
        ToolSet((TIME,)),
        ToolSet((ECHO, TIME)),
        ToolSet(({**ECHO, "description": "other"},)),
        ToolSet(({**ECHO, "inputSchema": {"type": "object", "required": ["text"]}},)),
    ]
    assert len({one.fingerprint for one in sets}) == len(sets)
    assert len(set(sets)) == len(sets)
