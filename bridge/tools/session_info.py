"""The tool `session_info`: tells the model which session it runs in."""

from ostler.bridge.schema import plain
from ostler.bridge.session_facts import KnowsSession, SessionFacts
from ostler.bridge.tool import ToolContext, ToolError, tool
from ostler.wire.json import JsonObject


@tool(name="session_info", timeout=5)
async def session_info(context: ToolContext) -> JsonObject:
    """Tells which conversation this is: its id, title, working directory, provider and model."""
    session = context.session
    facts = session.facts if isinstance(session, KnowsSession) else session
    if not isinstance(facts, SessionFacts):
        raise ToolError("this session says nothing about itself")
    return {name: value for name, value in plain(facts).items() if value is not None}


TOOL = session_info
