"""What is refused before it is sent."""

import dataclasses

import pytest

from ostler.pool.errors import PromptTooLarge, PromptUnsupported
from ostler.pool.prompt import (
    AudioPart,
    FilePart,
    ImagePart,
    LinkPart,
    PromptCapabilities,
    PromptPart,
    ResourcePart,
    TextPart,
    check_prompt,
    size_of,
)
from ostler.pool.provider import PromptLimit
from ostler.pool.providers.acp import PROVIDER as ACP
from ostler.pool.providers.codex_app_server import PROVIDER as CODEX

ALL = PromptCapabilities(image=True, audio=True, embedded=True)
IMAGE, AUDIO = ImagePart("eA==", "image/png"), AudioPart("eA==", "audio/wav")
RESOURCE, FILE, LINK = ResourcePart("u", "text"), FilePart("u", "eA=="), LinkPart("u", "n")


@pytest.mark.parametrize(
    ("part", "kind"),
    [(IMAGE, "image"), (AUDIO, "audio"), (RESOURCE, "embedded resource"), (FILE, "embedded resource")],
)
def test_what_was_not_offered_is_refused_by_kind(part: PromptPart, kind: str) -> None:
    with pytest.raises(PromptUnsupported, match=kind) as caught:
        check_prompt([TextPart("t"), part], ACP, PromptCapabilities())
    assert caught.value.kind == kind
    check_prompt([part], ACP, ALL)


def test_text_and_links_are_always_taken() -> None:
    check_prompt([TextPart("t"), LINK], ACP, PromptCapabilities())


def test_m08_codex_takes_a_mebi_of_characters_and_not_one_more() -> None:
    check_prompt([TextPart("x" * 1_048_576)], CODEX, ALL)
    with pytest.raises(PromptTooLarge) as caught:
        check_prompt([TextPart("x" * 1_048_576), TextPart("y")], CODEX, ALL)
    assert (caught.value.size, caught.value.limit) == (1_048_577, 1_048_576)


def test_m08_every_text_counts_towards_the_limit_and_no_picture_does() -> None:
    parts = [TextPart("tt"), IMAGE, AUDIO, RESOURCE, FILE, LINK]
    total = sum(map(size_of, parts))
    assert total == 2 + (64 + 1 + 4) + (64 + 1 + 4) + (64 + 1 + 1)
    check_prompt(parts, dataclasses.replace(ACP, prompt_limit=PromptLimit(total)), ALL)
    with pytest.raises(PromptTooLarge):
        check_prompt(parts, dataclasses.replace(ACP, prompt_limit=PromptLimit(total - 1)), ALL)
