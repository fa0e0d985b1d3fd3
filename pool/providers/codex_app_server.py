"""codex app-server, measured at 0.169.0.

- The native binary behind the Node launcher is started: one process less, and signals reach it.
- One bad UTF-8 byte ends it with exit code 0: code 0 is no clean end.
- Tools are native (`dynamicTools`): no relay process, no token.
- unsubscribe + archive keeps its memory flat for hundreds of threads; either alone does not.
- 1,048,576 characters is its limit for a prompt.
- With shell snapshots on, each thread that is started or resumed runs a login shell and then searches the whole tree of
  sessions for the record of every snapshot that is left there. Twenty sessions that moved at once waited three to six
  seconds for that. Without snapshots a command gets its login shell when it runs.
"""

from ostler.pool.provider import (
    ASKING,
    TRUSTED,
    Approval,
    CloseVerb,
    CodecName,
    CommandFinder,
    Deed,
    Deeds,
    FaultReading,
    Level,
    PromptLimit,
    Provider,
    ProviderNeeds,
    Recipe,
    Sharing,
    ToolChannel,
)

INSTALL = "npm install -g @openai/codex"
BINARY = "@openai/codex-*/vendor/*/bin/codex"
CONFIGURED = ("check_for_update_on_startup=false", "features.shell_snapshot=false")
"""Overrides on its command line; the configured `args` follow them, and the last value counts."""


def find(finder: CommandFinder) -> tuple[str, ...]:
    """Start the native binary without the Node launcher."""
    return (finder.native("codex", pattern=BINARY, install=INSTALL),)


def arguments(_wanted: ProviderNeeds) -> Recipe:
    """The model is a property of the thread, not of the process."""
    return Recipe(("app-server", *(word for line in CONFIGURED for word in ("-c", line))))


PROVIDER = Provider(
    name="codex-app-server",
    short="codex",
    title="Codex",
    codec=CodecName.CODEX_APP_SERVER,
    find=find,
    arguments=arguments,
    install=INSTALL,
    measured="0.169.0",
    fixed_env={"RUST_LOG": "error", "NO_COLOR": "1"},
    pass_env=("CODEX_HOME",),
    credentials=("OPENAI_API_KEY", "CODEX_API_KEY"),
    credential_files=(".codex/auth.json", ".codex/config.toml"),
    moved_by={"CODEX_HOME": ".codex"},
    sharing=Sharing.SESSIONS,
    seats_per_process=50,
    parallel_opens=8,
    load=TRUSTED,
    states_session=True,
    close=CloseVerb.UNSUBSCRIBE_ARCHIVE,
    tool_channel=ToolChannel.DYNAMIC_TOOLS,
    tool_channels=frozenset({ToolChannel.DYNAMIC_TOOLS, ToolChannel.RELAY}),
    prompt_limit=PromptLimit(1_048_576),
    approvals=frozenset({Approval.ASK, Approval.AUTO}),
    levels={**ASKING, Level.WORKSPACE: Deeds(Deed.DONE, Deed.ASKED, Deed.DONE, Deed.REFUSED)},
    commands=None,
    faults=FaultReading(unknown_session=frozenset({-32600})),
    expected_start=0.1,
    seat_weight=0.03,
)
