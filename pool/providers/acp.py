"""Any agent that speaks ACP over stdio: needs a command and nothing else.

Nothing was measured, so nothing is trusted: one session for each process, no load, one open at a time. Tools may be
given by any channel that the agent says it offers: what it says is checked when a seat opens.
"""

from ostler.pool.provider import Approval, CloseVerb, CodecName, Provider, Sharing, ToolChannel

PROVIDER = Provider(
    name="acp",
    title="Generic ACP agent",
    codec=CodecName.ACP,
    find=None,
    install="the agent of your choice, and its command in the settings",
    sharing=Sharing.NONE,
    close=CloseVerb.SESSION_CLOSE,
    tool_channels=frozenset({ToolChannel.RELAY, ToolChannel.HTTP, ToolChannel.ACP}),
    approvals=frozenset({Approval.ASK, Approval.AUTO}),
    expected_start=0.1,
    seat_weight=1.0,
)
