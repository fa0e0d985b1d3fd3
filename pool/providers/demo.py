"""The demo agent: a real ACP process without a model, shipped with the package."""

from ostler.demo.launch import command_line
from ostler.pool.provider import (
    ASKING,
    TRUSTED,
    Approval,
    CloseVerb,
    CodecName,
    CommandFinder,
    Provider,
    Sharing,
    ToolChannel,
    ToolNews,
)


def find(_finder: CommandFinder) -> tuple[str, ...]:
    """The agent of this installation, in a bare interpreter."""
    return tuple(command_line([]))


PROVIDER = Provider(
    name="demo",
    title="Demo agent",
    codec=CodecName.ACP,
    find=find,
    install="it is part of ostler",
    pass_env=("OSTLER_DEMO_STATE",),
    sharing=Sharing.SESSIONS,
    seats_per_process=200,
    parallel_opens=8,
    load=TRUSTED,
    tool_news=ToolNews.AT_ONCE,
    states_session=True,
    close=CloseVerb.SESSION_CLOSE,
    tool_channels=frozenset({ToolChannel.RELAY, ToolChannel.HTTP, ToolChannel.ACP}),
    approvals=frozenset({Approval.ASK, Approval.AUTO}),
    levels=ASKING,
    commands=None,
    expected_start=0.2,
    seat_weight=0.01,
)
