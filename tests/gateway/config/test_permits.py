"""What agents hear: who says it, and whose word is narrower. The questions are those of real agents."""

from itertools import product

import pytest

from ostler.gateway.model.permits import WIDTH, PermissionRule, PermissionRules, narrowest, of_function
from ostler.pool.events import PermissionAsked, PermissionOption
from ostler.pool.keys import TransportKey
from ostler.wire.json import JsonObject

KEY = TransportKey("demo", "small", "/")
CODEX: JsonObject = {"serverName": "ostler", "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_name": "peek"}}


def asked_by_codex_acp(server: str, **more: str) -> JsonObject:
    """As it asks for a function."""
    message = f'Allow the {server} MCP server to run tool "peek"?'
    request = {"_meta": {"codex_approval_kind": "mcp_tool_call"}, "message": message}
    return {"rawInput": {"server_name": server, "request": request}, **more}


def test_n43_qwen_names_a_function_in_its_options_only() -> None:
    for kind, name, is_one in (("other", "peek", True), ("other", "peek; rm", False), ("execute", "peek", False)):
        options = [PermissionOption("p", f"Always Allow in project: {name}", "allow_always")]
        assert of_function(PermissionAsked("p1", "{}", options, {"kind": kind}), ["peek"], "ostler") is is_one


def test_nobody_widens_what_another_one_says() -> None:
    for house, model, key in product(PermissionRule, (None, *PermissionRule), (None, *PermissionRule)):
        permits = PermissionRules(house, {"demo/*": model} if model else {"other/*": PermissionRule.ALLOW})
        rule = permits.rule(KEY, key)
        said = [each for each in (model, key) if each is not None]
        assert rule is (min(said, key=lambda each: WIDTH[each]) if said else house)
    assert narrowest(None, None) is None


def test_only_agents_that_ask_can_be_held_to_a_rule() -> None:
    permits = PermissionRules(PermissionRule.ASK, can_ask=frozenset({"gemini-acp"}))
    assert [permits.kept(KEY, rule) for rule in PermissionRule] == [False, False, False, True]
    assert permits.kept(TransportKey("gemini-acp", "x", "/"), PermissionRule.DENY)
    assert PermissionRules().kept(KEY, PermissionRule.DENY)


@pytest.mark.parametrize(
    ("title", "call", "is_one"),
    [
        ("peek (ostler MCP Server)", {"kind": "other"}, True),
        ("mcp__ostler__peek", {"kind": "other"}, True),
        ("Allow the ostler MCP server to run tool?", CODEX, True),
        ("ostler_peek", {"kind": "other"}, True),
        ("ostler_peek", {"kind": "execute"}, False),
        ("Approve MCP tool call", asked_by_codex_acp("ostler"), True),
        ("Approve MCP tool call", asked_by_codex_acp("other"), False),
        ("Approve MCP tool call", asked_by_codex_acp("ostler", kind="execute"), False),
        ("peek (other MCP Server)", {"kind": "other"}, False),
        ("mcp__other__peek", {"kind": "other"}, False),
        ("mcp__ostler__peek", {"kind": "execute"}, False),
        ("rm -rf / # mcp__ostler__peek", {"kind": "other"}, False),
        ("mcp__ostler__peek", {**CODEX, "serverName": "other"}, False),
        ("x", {**CODEX, "_meta": {"codex_approval_kind": "command", "tool_name": "peek"}}, False),
        ("{}", {"kind": "other"}, False),
        ("peek", {}, False),
    ],
)
def test_a_call_of_the_clients_own_function_is_told_from_anything_else(
    title: str, call: JsonObject, is_one: bool
) -> None:
    assert of_function(PermissionAsked("p1", title, [], call), ["peek"], "ostler") is is_one
    assert not of_function(PermissionAsked("p1", title, [], call), [], "ostler")
