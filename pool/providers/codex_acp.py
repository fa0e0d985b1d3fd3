"""codex-acp, measured at 0.16.0.

- The npm command is a Node wrapper that orphans the real process on any signal: the native binary is started.
- It repeats a warning about an unknown model name in the text of every answer: stripped.
- A second prompt on a busy session is never answered; one bad UTF-8 byte ends the process.
- Tools over HTTP stay separate like those by relay. It states `mcpCapabilities.acp`: false.
- It accepts a missing or relative cwd without an error: cwd is checked before the request.
"""

import json
import re

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
)

INSTALL = "npm install -g @zed-industries/codex-acp"
MODES = {
    Approval.AUTO: ("-c", 'approval_policy="never"', "-c", 'sandbox_mode="danger-full-access"'),
    # Asks before each command that is not known to only read; those run in a sandbox that cannot write.
    Approval.ASK: ("-c", 'approval_policy="untrusted"', "-c", 'sandbox_mode="read-only"'),
    Approval.AGENT: (),
}
BINARY = "@zed-industries/codex-acp-*/bin/codex-acp"


def find(finder: CommandFinder) -> tuple[str, ...]:
    """Start the native binary without the Node wrapper."""
    return (finder.native("codex-acp", pattern=BINARY, install=INSTALL),)


def arguments(wanted: ProviderNeeds) -> Recipe:
    """Model and approval as codex's own configuration overrides."""
    model = () if wanted.model is None else ("-c", f"model={json.dumps(wanted.model, ensure_ascii=False)}")
    return Recipe((*model, *MODES[wanted.approval]))


PROVIDER = Provider(
    name="codex-acp",
    title="Codex over ACP",
    codec=CodecName.ACP,
    find=find,
    arguments=arguments,
    install=INSTALL,
    measured="0.16.0",
    fixed_env={"RUST_LOG": "error", "NO_COLOR": "1"},
    pass_env=("CODEX_HOME",),
    credentials=("OPENAI_API_KEY", "CODEX_API_KEY"),
    credential_files=(".codex/auth.json", ".codex/config.toml"),
    moved_by={"CODEX_HOME": ".codex"},
    sharing=Sharing.SESSIONS,
    seats_per_process=15,
    parallel_opens=4,
    load=TRUSTED,
    states_session=True,
    close=CloseVerb.SESSION_CLOSE,
    tool_channels=frozenset({ToolChannel.RELAY, ToolChannel.HTTP}),
    approvals=frozenset({Approval.ASK, Approval.AUTO}),
    levels=ASKING,
    faults=FaultReading(unknown_session=frozenset({-32002})),
    strips=re.compile(r"\s*Model metadata for `[^`]*` not found\. Defaulting to fallback metadata;[^\n]*\s*"),
    expected_start=0.1,
    seat_weight=0.2,
)
