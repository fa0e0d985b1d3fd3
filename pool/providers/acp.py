"""Any agent that speaks ACP over stdio: needs a command and nothing else.

Nothing was measured, so nothing is trusted: one session for each process, no load, one open at a time.
"""

from ostler.pool.provider import Approval, CloseVerb, CodecName, Provider, Sharing

PROVIDER = Provider(
    name="acp",
    title="Generic ACP agent",
    codec=CodecName.ACP,
    find=None,
    install="the agent of your choice, and its command in the settings",
    sharing=Sharing.NONE,
    close=CloseVerb.SESSION_CLOSE,
    approvals=frozenset({Approval.ASK, Approval.AUTO}),
    expected_start=0.1,
    seat_weight=1.0,
)
