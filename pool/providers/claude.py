"""claude-agent-acp, measured at 0.49.0.

- Each session is a child process of ~110 MB and costs 273 ms of CPU to open: budgeted like a process, opened two at a
  time.
- It passes its whole environment, key included, to its tool servers: only the relay of ostler is trusted.
- Tools over HTTP work and stay separate, but the agent puts the header with the token into the arguments of a child,
  where every user of the machine can read it, and HTTP has no peer to check: by relay only.
- A session's file is complete only after two quiet seconds.
- A word that begins with @ names a file or one of its agents: it puts the file into the prompt unasked, from anywhere
  on the disk. Texts are sent with a zero-width character in front of such words.
- A SIGKILL of the parent leaves children behind: ended by process group.
"""

import re

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
    ToolNews,
)

INSTALL = "npm install -g @agentclientprotocol/claude-agent-acp"


def find(finder: CommandFinder) -> tuple[str, ...]:
    """Start the script without the npm launcher."""
    return finder.node_script("claude-agent-acp", install=INSTALL)


def arguments(wanted: ProviderNeeds) -> Recipe:
    """The model is set by an environment variable."""
    return Recipe(env={} if wanted.model is None else {"ANTHROPIC_MODEL": wanted.model})


PROVIDER = Provider(
    name="claude-acp",
    short="claude",
    title="Claude Agent",
    codec=CodecName.ACP,
    find=find,
    arguments=arguments,
    install=INSTALL,
    measured="0.49.0",
    fixed_env={
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "NO_COLOR": "1",
    },
    pass_env=("ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "IS_SANDBOX"),
    credentials=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    credential_files=(".claude/.credentials.json", ".claude/settings.json"),
    moved_by={"CLAUDE_CONFIG_DIR": ".claude"},
    sharing=Sharing.SESSIONS,
    seats_per_process=10,
    parallel_opens=2,
    load=LoadTrust(settle=2.0),
    tool_news=ToolNews.LATE,
    close=CloseVerb.SESSION_CLOSE,
    tokens_in_argv=True,
    approvals=frozenset({Approval.ASK, Approval.AUTO}),
    levels=ASKING,
    mentions=re.compile(r"(?:(?<=^)|(?<=\s)|(?<=\ufeff))(?=@)"),
    auto_mode="bypassPermissions",
    faults=FaultReading(unknown_session=frozenset({-32603, -32002})),
    expected_start=0.2,
    seat_weight=1.0,
)
