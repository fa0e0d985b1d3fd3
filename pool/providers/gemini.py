"""gemini-cli, measured at 0.61.0.

- Without NO_RELAUNCH it is two processes, the first of which ignores signals. Without TRUST_WORKSPACE it drops tool
  servers without a word.
- Parallel opens on one HOME fight for a file lock with exponential retries: 8 took 12.8 s, one after another 23 ms
  each.
- No verb ends a session, and each one left behind makes the next slower: recycled after 40.
- A load within the minute of the open wipes the saved turns: the record's file name holds the minute.
- It answers a load before it has told the conversation: what comes then would be the first piece of the next answer.
- About 4.2 million characters (a million tokens at four ASCII characters each) end a turn as "max_tokens" before the
  model is called: refused before sending. Text of other alphabets reaches that cap earlier, and ends as a limit.
- `--model` always: its automatic choice costs a call to a second model before each turn.
"""

import re

from ostler.pool.provider import (
    Approval,
    CloseVerb,
    CodecName,
    FaultReading,
    Finder,
    LoadTrust,
    PromptLimit,
    Provider,
    Recipe,
    Sharing,
    Wanted,
)

INSTALL = "npm install -g @google/gemini-cli"
DEFAULT_MODEL = "gemini-2.5-flash"


def find(finder: Finder) -> tuple[str, ...]:
    """The bundled script, without the launcher."""
    return finder.node_script("gemini", install=INSTALL)


def arguments(wanted: Wanted) -> Recipe:
    """ACP over stdio with a fixed model."""
    auto = ("--approval-mode", "yolo") if wanted.approval is Approval.AUTO else ()
    return Recipe(("--acp", "--model", wanted.model or DEFAULT_MODEL, *auto))


PROVIDER = Provider(
    name="gemini-acp",
    title="Gemini CLI",
    codec=CodecName.ACP,
    find=find,
    arguments=arguments,
    install=INSTALL,
    fixed_env={
        "GEMINI_CLI_NO_RELAUNCH": "1",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "NO_COLOR": "1",
    },
    pass_env=("GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
    credentials=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    credential_files=(".gemini/oauth_creds.json", ".gemini/settings.json"),
    sharing=Sharing.SESSIONS,
    seats_per_process=20,
    recycle_after=40,
    parallel_opens=1,
    load=LoadTrust(next_minute=True),
    replays_noise=re.compile(r"\s*(<session_context>|\[Function Response: )"),
    prompt_limit=PromptLimit(4_000_000),
    replay_quiet=0.3,
    close=CloseVerb.NONE,
    approvals=frozenset({Approval.ASK, Approval.AUTO}),
    faults=FaultReading(unknown_session=frozenset({-32602, -32603})),
    keeps_cancelled_prompts=False,
    expected_start=0.7,
    seat_weight=0.02,
)
