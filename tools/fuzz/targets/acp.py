"""The ACP codec."""

from ostler.pool.agent.codecs.acp import AcpCodec
from tools.fuzz.codec_subject import CodecSubject
from tools.fuzz.target import Target

TARGET = Target("acp", "acp", lambda rng: CodecSubject(AcpCodec(), rng))
