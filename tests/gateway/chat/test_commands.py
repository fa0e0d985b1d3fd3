"""What is a command and what is text; which one was meant; and how a command is found."""

import pytest

from ostler.gateway.chat.commands import load
from ostler.gateway.chat.commands.registry import (
    BadCommand,
    ChatCommand,
    CommandCall,
    CommandReply,
    CommandWords,
    Registry,
    parse,
)


async def run(call: CommandCall) -> CommandReply:
    return CommandReply(call.args)


def named(name: str, *aliases: str) -> ChatCommand:
    return ChatCommand(name, f"does {name}", run, aliases=aliases)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/new", CommandWords("new", "")),
        ("  /New  ", CommandWords("new", "")),
        ("/title  My plan ", CommandWords("title", "My plan")),
        ("/title two\nlines", CommandWords("title", "two\nlines")),
        ("/undo@ostler_bot 2", CommandWords("undo", "2")),
        ("/no-such", CommandWords("no-such", "")),
        ("see /new in the manual", None),
        ("/etc/hosts is a file", None),
        ("//new", None),
        ("/ new", None),
        ("/", None),
        ("/2 of them", None),
        ("", None),
    ],
)
def test_d20_a_command_is_a_slash_and_a_word_at_the_beginning(text: str, words: CommandWords | None) -> None:
    assert parse(text) == words


def test_d18_the_nearest_command_is_named() -> None:
    registry = Registry([named("resume"), named("help"), named("status", "info")])
    assert [registry.nearest(word) for word in ("resmue", "halp", "inf", "sta", "xyzzy")] == [
        "resume",
        "help",
        "info",
        "status",
        None,
    ]
    assert "/resume" in registry.unknown("resmue")
    assert "/help" in registry.unknown("xyzzy")


def test_a_name_belongs_to_one_command() -> None:
    with pytest.raises(BadCommand, match="/b"):
        Registry([named("a", "b"), named("b")])


def test_rd8_every_command_of_ours_is_found_under_each_of_its_names_and_says_what_it_does() -> None:
    registry = load()
    for command in registry:
        assert command.summary
        assert {registry.find(name) for name in (command.name, *command.aliases)} == {command}
    assert {"new", "reset", "help"} <= set(registry.names)
