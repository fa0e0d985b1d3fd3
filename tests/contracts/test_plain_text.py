"""Contract: what a client sends is text. No agent obeys it as a command of its own or reads a file that it names."""

from pathlib import Path

from ostler.pool.events import StopReason
from ostler.pool.prompt import TextPart
from ostler.pool.provider import Provider, Sharing
from tests.support.provider_harness import ProviderHarness, hear, say
from tests.support.waiting import soon

COMMANDS = ("/init", "  /help", "/compact", "/home/ann/app.py fails, why?", "// comment", "!ls", "#note", "$skill x")


def files(cwd: str) -> list[str]:
    return sorted(path.name for path in Path(cwd).iterdir())


async def test_n44_a_text_that_looks_like_a_command_reaches_the_model(
    provider_harness: ProviderHarness, provider: Provider
) -> None:
    transport = await provider_harness.start()
    for place, text in enumerate(COMMANDS):
        if place and provider.sharing is Sharing.NONE:
            transport = await provider_harness.start()
        cwd = provider_harness.cwd(f"work-{place}")
        heard = await say(await provider_harness.open(transport, cwd=cwd), text)
        assert heard.text.strip().endswith(text.strip())
        assert heard.finished.reason is StopReason.DONE
        assert files(cwd) == []


async def test_n44_no_block_of_a_prompt_is_obeyed(provider_harness: ProviderHarness, provider: Provider) -> None:
    transport = await provider_harness.start()
    for place, blocks in enumerate((("", "/init"), (" ", "/init"), ("hello", "/init"), ("/init", "hello"))):
        if place and provider.sharing is Sharing.NONE:
            transport = await provider_harness.start()
        cwd = provider_harness.cwd(f"work-{place}")
        session = await provider_harness.open(transport, cwd=cwd)
        heard = await hear(await soon(session.prompt([TextPart(text) for text in blocks]), "the prompt being sent"))
        assert f"echo: {blocks[-1]}" in heard.text
        assert files(cwd) == []


async def test_n44_a_name_behind_an_at_sign_is_no_file_to_read(provider_harness: ProviderHarness) -> None:
    named = Path(provider_harness.cwd()) / "named.txt"
    named.write_text("what-is-in-the-file")
    session = await provider_harness.open(await provider_harness.start())
    for text in (f"see @{named}", "@named.txt", 'and @"named.txt"\n@named.txt'):
        await say(session, text)
    assert "what-is-in-the-file" not in (await say(session, "!recall")).text
