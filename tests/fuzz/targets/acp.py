"""The ACP codec."""

from ostler.pool.agent.codecs.acp import AcpCodec
from tests.fuzz.codec_subject import CodecSubject
from tests.fuzz.target import Target

TARGET = Target("acp", "acp", lambda rng: CodecSubject(AcpCodec(), rng))
