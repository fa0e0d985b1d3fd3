"""opencode, measured at 1.18.33.

- Tool servers belong to (cwd, name): two sessions in one cwd see each other's tools, and the first one's calls arrive
  with the second one's token. Only a cwd of its own isolates a session, also over HTTP.
- `session/close` ends the session, not its tool server, and frees no memory: the process is recycled by memory, not by
  count.
- The heaviest of all: 340 MB empty.
- Its first start on a HOME creates a database. Of two concurrent first starts, one may end with "database is locked".
"""

import json
from collections.abc import Mapping

from ostler.pool.provider import (
    ASKING,
    TRUSTED,
    Approval,
    CloseVerb,
    CodecName,
    CommandFinder,
    FaultReading,
    Provider,
    ProviderNeeds,
    Recipe,
    Sharing,
    ToolChannel,
    ToolNews,
)

INSTALL = "npm install -g opencode-ai"
READS = dict.fromkeys(("read", "glob", "grep", "list", "todowrite", "todoread"), "allow")
"""Tools that only read need no permission, as at every other agent."""
BINARY = "opencode-*/bin/opencode"


def find(finder: CommandFinder) -> tuple[str, ...]:
    """Start the native binary without the launcher."""
    return (finder.native("opencode", pattern=BINARY, install=INSTALL),)


def arguments(wanted: ProviderNeeds) -> Recipe:
    """The model is set by configuration text in the environment, which overrides the files.

    opencode replaces `{env:NAME}` and `{file:PATH}` in that text before it parses it as JSON, and a client chooses the
    model name: its braces are written as JSON escapes, which are not yet braces at that moment.
    """
    overlay: dict[str, object] = {}
    if wanted.model is not None:
        overlay["model"] = wanted.model
    if wanted.approval is not Approval.AGENT:
        # By default it asks for nothing, not even for tools of servers.
        overlay["permission"] = {"*": "allow"} if wanted.approval is Approval.AUTO else {"*": "ask", **READS}
    return Recipe(("acp",), {"OPENCODE_CONFIG_CONTENT": as_text(overlay)} if overlay else {})


def as_text(overlay: Mapping[str, object]) -> str:
    """JSON in which braces occur only as object delimiters."""
    members = (f"{json.dumps(name)}: {escaped(value)}" for name, value in overlay.items())
    return f"{{{', '.join(members)}}}"


def escaped(value: object) -> str:
    """A value of the overlay as JSON; in a text every brace is escaped."""
    text = json.dumps(value)
    return text.replace("{", "\\u007b").replace("}", "\\u007d") if isinstance(value, str) else text


PROVIDER = Provider(
    name="opencode-acp",
    short="opencode",
    title="opencode",
    codec=CodecName.ACP,
    find=find,
    arguments=arguments,
    install=INSTALL,
    measured="1.18.33",
    fixed_env={
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "NO_COLOR": "1",
    },
    pass_env=("OPENCODE_DISABLE_DEFAULT_PLUGINS",),
    credentials=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY"),
    credential_files=(".local/share/opencode/auth.json", ".config/opencode/opencode.json"),
    moved_by={"XDG_DATA_HOME": ".local/share", "XDG_CONFIG_HOME": ".config"},
    sharing=Sharing.PER_CWD,
    seats_per_process=8,
    parallel_opens=2,
    first_start_alone=True,
    load=TRUSTED,
    tool_news=ToolNews.AT_ONCE,
    close=CloseVerb.SESSION_CLOSE,
    close_ends_tools=False,
    tool_channels=frozenset({ToolChannel.RELAY, ToolChannel.HTTP}),
    approvals=frozenset({Approval.ASK, Approval.AUTO}),
    levels=ASKING,
    faults=FaultReading(unknown_session=frozenset({-32602, -32603}), cancelled=frozenset({-32800, -32603})),
    late_updates=0.03,
    expected_start=1.4,
    seat_weight=0.1,
)
