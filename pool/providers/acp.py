"""Any agent that speaks ACP over stdio: needs only a command.

This agent was not measured, so it is not trusted: one session per process, no load, one open at a time. Tools may use
any channel that the agent offers: its handshake is checked when a seat opens.
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
