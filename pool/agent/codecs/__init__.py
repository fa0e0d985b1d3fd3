"""Agent dialects and the pool's vocabulary, two-way. Sans-io; `choose` is the one place that knows which codec is
which."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ostler.pool.agent.codec import Codec
from ostler.pool.agent.codecs.acp import AcpCodec
from ostler.pool.agent.codecs.codex_app_server import CodexCodec
from ostler.pool.provider import Approval, CodecName, ToolChannel

Make = Callable[[str | None, Approval, ToolChannel], Codec]


def _acp(_model: str | None, _approval: Approval, channel: ToolChannel) -> Codec:
    return AcpCodec(channel)


CODECS: Mapping[CodecName, Make] = MappingProxyType({CodecName.ACP: _acp, CodecName.CODEX_APP_SERVER: CodexCodec})


def choose(name: CodecName, *, model: str | None, approval: Approval, channel: ToolChannel) -> Codec:
    """A fresh codec for one transport."""
    return CODECS[name](model, approval, channel)
