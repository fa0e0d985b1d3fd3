"""Completion and key bindings for prompt_toolkit. Imported only for interactive input."""

from collections.abc import Iterator, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


class SlashCompleter(Completer):
    """Completes the first word of a message that begins with a slash."""

    def __init__(self, commands: Sequence[tuple[str, str]]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        del complete_event
        typed = document.text_before_cursor
        if not typed.startswith("/") or any(char.isspace() for char in typed):
            return
        for word, summary in self._commands:
            if word.startswith(typed):
                yield Completion(word, start_position=-len(typed), display_meta=summary)


def keys() -> KeyBindings:
    """Alt-Enter inserts a new line. prompt_toolkit's own multi-line mode takes the whole screen, and Enter."""
    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings
