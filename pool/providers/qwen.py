"""qwen-code, measured at 0.15.10.

- Without NO_RELAUNCH it is two processes, and the first orphans the second.
- Tools of servers are hidden behind a search tool unless that tool is excluded.
- A cancelled prompt is answered with error -32603 instead of a stop reason.
- A load of an unknown id is answered with a fresh, empty session.
- Tools over HTTP stay separate like those by relay; then no tool process inherits the keys of its environment.
- No request ends a session; `resume` is advertised and does not exist. A SIGKILL right after a turn loses it.
"""

from ostler.pool.provider import (
    ASKING,
    Approval,
    CloseVerb,
    CodecName,
    CommandFinder,
    FaultReading,
    LoadTrust,
    Provider,
    ProviderNeeds,
    Recipe,
    Sharing,
    ToolChannel,
)

INSTALL = "npm install -g @qwen-code/qwen-code"


def find(finder: CommandFinder) -> tuple[str, ...]:
    """Start the script without the npm launcher."""
    return finder.node_script("qwen", install=INSTALL)


def arguments(wanted: ProviderNeeds) -> Recipe:
    """ACP over stdio, every tool offered directly."""
    model = {} if wanted.model is None else {"OPENAI_MODEL": wanted.model}
    auto = ("--approval-mode", "yolo") if wanted.approval is Approval.AUTO else ()
    return Recipe(("--acp", "--exclude-tools", "tool_search", *auto), model)


PROVIDER = Provider(
    name="qwen-acp",
    short="qwen",
    title="Qwen Code",
    codec=CodecName.ACP,
    find=find,
    arguments=arguments,
    install=INSTALL,
    measured="0.15.10",
    fixed_env={"QWEN_CODE_NO_RELAUNCH": "true", "NO_COLOR": "1"},
    pass_env=("OPENAI_BASE_URL", "OPENAI_MODEL"),
    credentials=("OPENAI_API_KEY", "DASHSCOPE_API_KEY"),
    credential_files=(".qwen/oauth_creds.json", ".qwen/settings.json"),
    sharing=Sharing.SESSIONS,
    seats_per_process=20,
    recycle_after=40,
    parallel_opens=1,
    load=LoadTrust(settle=2.0),
    close=CloseVerb.NONE,
    tool_channels=frozenset({ToolChannel.RELAY, ToolChannel.HTTP}),
    approvals=frozenset({Approval.ASK, Approval.AUTO}),
    levels=ASKING,
    faults=FaultReading(unknown_session=frozenset({-32603, -32002}), cancelled=frozenset({-32603})),
    expected_start=0.7,
    seat_weight=0.02,
)
