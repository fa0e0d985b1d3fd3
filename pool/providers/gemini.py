"""gemini-cli, measured at 0.61.0.

- Without NO_RELAUNCH it is two processes, the first of which ignores signals. Without TRUST_WORKSPACE it silently drops
  tool servers.
- Parallel opens on one HOME compete for a file lock with exponential retries: 8 took 12.8 s, one after another 23 ms
  each.
- No request ends a session; each one left behind makes the next slower and the process bigger: see the numbers below.
- A load within the minute of the open wipes the saved turns: the record's file name contains the minute.
- A load reads all records of the directory: 0.03 s with one, 0.3 s with six hundred of 7 KB, and it leaves one more.
- It answers a load before it has repeated the conversation: later pieces would be taken for the start of the next
  answer.
- About 4.2 million characters (a million tokens at four ASCII characters each) end a turn as "max_tokens" before the
  model is called: refused before sending. Text of other alphabets reaches that cap earlier, and ends as a limit.
- Tools over HTTP stay separate like those by relay, and save the relay process of each session.
- Started in a session's directory it keeps a record of itself there, and a load finds "no previous sessions": it starts
  in HOME, and sessions name their directories themselves.
- `--model` is always given: its automatic choice costs a call to a second model before each turn.
"""

import re

from ostler.pool.provider import (
    ASKING,
    Approval,
    CloseVerb,
    CodecName,
    CommandFinder,
    Deed,
    Deeds,
    FaultReading,
    Level,
    LoadTrust,
    PromptLimit,
    Provider,
    ProviderNeeds,
    Recipe,
    Records,
    Sharing,
    ToolChannel,
    ToolNews,
)

INSTALL = "npm install -g @google/gemini-cli"
DEFAULT_MODEL = "gemini-2.5-flash"

# The numbers of a process whose sessions cannot be ended. A fresh one is 200 MB; a session adds 2 to 3.5 MB to it and 3
# MB of relay, the relay until the session is released, the rest until the process ends; `session/new` grows from 23 ms
# by about 1 ms per session ever opened. `bench/pool` measures the effects.

SEATS = 40
"""Live sessions at once, parked ones included: twenty sessions and a full reserve of sixteen fit into one process at
about twice its fresh size. More would save little (a second process costs as much as 35 seats), make every open slower,
and leave one thread to too many turns; fifty sessions and their reserve still need only two processes.
"""
LEAKS = 20
"""Dead sessions until the process is recycled. Recycling starts the successor first, so for a moment there are two
processes: a fresh one, and one that has grown by 20 dead sessions and the 15 that came while the successor started,
together 2.1 times a fresh one (limit 10: 2.0, limit 40: 2.4). A limit of ten would start a process (0.65 s of CPU) for
every twenty-five sessions, forty would make opens half as slow again. Live sessions do not count: forty of them are no
reason to move forty conversations. The relays of dead sessions are dismissed immediately: after a delay of one second
(the bridge's own default) there were twenty of them, 0.3 times a fresh process, and the old process took a third of a
second to exit with them beside its successor.
"""
REFILL_PAUSE = 0.25
"""The claimer's first output takes 20 to 40 ms of the only thread; opening the next seat immediately takes 40 ms of the
same thread and made the first text of a parked seat 2.3 times that of the bare agent. A real model thinks for longer
than this pause, so the refill happens while the user waits for the model anyway.
"""


KEEPS_INSIDE = {
    Level.AUTO: Deeds(Deed.DONE, Deed.REFUSED, Deed.DONE, Deed.DONE),
    Level.WORKSPACE: Deeds(Deed.DONE, Deed.REFUSED, Deed.ASKED, Deed.ASKED),
    Level.ASK: Deeds(Deed.ASKED, Deed.REFUSED, Deed.ASKED, Deed.ASKED),
}
"""Its edit tool always refuses a file outside the session's directory, at every level."""


def find(finder: CommandFinder) -> tuple[str, ...]:
    """Start the bundled script without the launcher."""
    return finder.node_script("gemini", install=INSTALL)


def arguments(wanted: ProviderNeeds) -> Recipe:
    """ACP over stdio with a fixed model."""
    auto = ("--approval-mode", "yolo") if wanted.approval is Approval.AUTO else ()
    return Recipe(("--acp", "--model", wanted.model or DEFAULT_MODEL, *auto))


PROVIDER = Provider(
    name="gemini-acp",
    short="gemini",
    title="Gemini CLI",
    codec=CodecName.ACP,
    find=find,
    arguments=arguments,
    install=INSTALL,
    measured="0.61.0",
    fixed_env={
        "GEMINI_CLI_NO_RELAUNCH": "1",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "NO_COLOR": "1",
    },
    pass_env=("GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
    credentials=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    credential_files=(".gemini/oauth_creds.json", ".gemini/settings.json"),
    sharing=Sharing.SESSIONS,
    seats_per_process=SEATS,
    recycle_after=LEAKS,
    parallel_opens=1,
    refill_pause=REFILL_PAUSE,
    starts_in_home=True,
    load=LoadTrust(next_minute=True),
    records=Records(".gemini/tmp/*/chats", "session-*-{}.jsonl", 8),
    replays_noise=re.compile(r"\s*(<session_context>|\[Function Response: )"),
    prompt_limit=PromptLimit(4_000_000),
    replay_quiet=0.3,
    tool_news=ToolNews.LATE,
    close=CloseVerb.NONE,
    tool_channels=frozenset({ToolChannel.RELAY, ToolChannel.HTTP}),
    approvals=frozenset({Approval.ASK, Approval.AUTO}),
    levels={**ASKING, **KEEPS_INSIDE},
    faults=FaultReading(unknown_session=frozenset({-32602, -32603})),
    keeps_cancelled_prompts=False,
    expected_start=0.7,
    seat_weight=0.02,
)
