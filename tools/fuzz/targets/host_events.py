"""What an agent sends, all the way to a gateway's reader: nothing of it may pass for an event of the gateway's own."""

from random import Random
from typing import get_args

from ostler.gateway.chat.answer import PREFIX, MessageEvents
from ostler.gateway.model.ask import Ask
from ostler.gateway.turns.answer import AnswerStream, ItemBegun
from ostler.gateway.turns.session import passed_on
from ostler.gateway.turns.timings import TurnTimings
from ostler.gateway.turns.turn import Turn
from ostler.pool.agent.codecs.acp import AcpCodec
from ostler.pool.events import AgentEvent, HostEvent
from ostler.pool.keys import TransportKey
from tools.fuzz.codec_subject import CodecSubject
from tools.fuzz.target import Target

KINDS = get_args(AgentEvent)
OURS = {"permission", "notice", "history_cut"}
ROOM = 1 << 30
ITEMS = 1 << 20


def judge(answer: AnswerStream) -> None:
    """No event of a chat surface may be one of the gateway's own."""
    dialect = MessageEvents("smsg_1", "s", (), lambda _: {})
    for event in answer.since(0):
        if isinstance(event, str | ItemBegun):
            continue
        for name, fields in dialect.events(event):
            activity = fields.get("item", {}).get("activity", {})
            if name.removeprefix(PREFIX) in OURS or activity.get("kind") in OURS - {"permission"}:
                raise AssertionError(f"the agent spoke in the gateway's name: {name} {fields}")


class ReaderSubject(CodecSubject):
    """A codec, and the reader of a chat face behind it. Each event meets a turn of its own."""

    def _check(self, value: object) -> None:
        super()._check(value)
        if isinstance(value, HostEvent):
            raise AssertionError(f"the codec made {value!r}")  # noqa: TRY004 - a finding, as all others
        if isinstance(value, KINDS):
            ask = Ask(TransportKey("demo", "default", "/"), (), "", ())
            turn = Turn("turn", ask, AnswerStream("smsg_1"), TurnTimings(lambda: 0.0))
            if not passed_on(turn, ROOM, ITEMS, value):
                raise AssertionError(f"{value!r} ended the answer")
            judge(turn.answer)


def begin(rng: Random) -> ReaderSubject:
    return ReaderSubject(AcpCodec(), rng)


TARGET = Target("host_events", "host_events", begin)
