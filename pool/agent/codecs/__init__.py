"""Codecs: agent dialects to and from the pool's vocabulary. Sans-io; only `codec_for` knows which codec is which."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ostler.pool.agent.codec import Codec
from ostler.pool.agent.codecs.acp import AcpCodec
from ostler.pool.agent.codecs.codex_app_server import CodexCodec
from ostler.pool.launch.builder import Launch, model_of
from ostler.pool.provider import Approval, CodecName, ToolChannel

Make = Callable[[str | None, Approval, ToolChannel], Codec]


def _acp(_model: str | None, _approval: Approval, channel: ToolChannel) -> Codec:
    return AcpCodec(channel)


CODECS: Mapping[CodecName, Make] = MappingProxyType({CodecName.ACP: _acp, CodecName.CODEX_APP_SERVER: CodexCodec})


def codec_for(launch: Launch) -> Codec:
    """Return a new codec for one process."""
    settings, provider = launch.settings, launch.provider
    return CODECS[provider.codec](model_of(launch.key), settings.approval, launch.channel)
