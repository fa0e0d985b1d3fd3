"""hermes-agent, measured at 0.19.0; the extras `acp` and `mcp` must both be installed.

- One tool server per name for the whole process: the first session's token answers for all. Never shared.
- Its `session/close` replies {} and the session goes on answering: only the end of the process ends a session.
- It asks before a command that it considers dangerous, and before no tool of a server: it has no ask mode.
- A prompt cancelled before it reached the model is answered with error -32603, and the turn goes on: the next prompt
  would be queued behind it.
- A second prompt is queued behind a chatty answer; cancel takes 200 ms.
"""

from ostler.pool.provider import (
    Approval,
    CloseVerb,
    CodecName,
    CommandFinder,
    FaultReading,
    Provider,
    ProviderNeeds,
    Recipe,
    Sharing,
    ToolNews,
)

INSTALL = "pip install 'hermes-agent[acp,mcp]'"


def find(finder: CommandFinder) -> tuple[str, ...]:
    """The `hermes` command, started as it is found."""
    return (finder.program("hermes", install=INSTALL),)


def arguments(_wanted: ProviderNeeds) -> Recipe:
    """The model is in the agent's own configuration."""
    return Recipe(("acp",))


PROVIDER = Provider(
    name="hermes-acp",
    short="hermes",
    title="Hermes",
    codec=CodecName.ACP,
    find=find,
    arguments=arguments,
    install=INSTALL,
    measured="0.19.0",
    fixed_env={"NO_COLOR": "1"},
    pass_env=("HERMES_HOME", "OPENAI_BASE_URL"),
    credentials=("OPENAI_API_KEY", "OPENROUTER_API_KEY"),
    credential_files=(".hermes/config.yaml", ".hermes/.env"),
    moved_by={"HERMES_HOME": ".hermes"},
    sharing=Sharing.NONE,
    tool_news=ToolNews.LATE,
    close=CloseVerb.KILL,
    approvals=frozenset({Approval.AUTO}),
    faults=FaultReading(cancelled=frozenset({-32800, -32603}), spoiled=frozenset({-32603})),
    expected_start=0.7,
    seat_weight=1.0,
)
