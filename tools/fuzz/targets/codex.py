"""The codec of the codex app-server protocol."""

from random import Random

from ostler.pool.agent.codecs.codex_app_server import CodexCodec
from ostler.pool.provider import Approval, ToolChannel
from tools.fuzz.codec_subject import CodecSubject
from tools.fuzz.target import Target


def begin(rng: Random) -> CodecSubject:
    return CodecSubject(CodexCodec("gpt-5", Approval.ASK, ToolChannel.DYNAMIC_TOOLS), rng)


TARGET = Target("codex", "codex", begin)
