"""`/status`: the state of this conversation."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply
from ostler.gateway.chat.lists import ago, counted
from ostler.wire.json import JsonObject


async def run(call: CommandCall) -> CommandReply:
    """Show session, model, directory, and whether the agent is working."""
    conversation = call.conversation
    key = await conversation.transport_key()
    session, at_work = conversation.session, conversation.at_work
    facts: JsonObject = {"model": f"{key.provider}/{key.model}", "cwd": key.cwd, "busy": conversation.busy}
    lines = [f"Model: {key.provider}/{key.model}", f"Directory: {key.cwd}"]
    if session is None:
        return CommandReply(
            "\n".join(["No session yet: the next message begins one.", *lines]), ({"type": "status", **facts},)
        )
    counts = await conversation.store.counts(session.id)
    seated = at_work is not None and at_work.seat_manager.seat is not None
    active = ago(conversation.sessions.deps.wall() - session.last_active_at)
    facts |= {"session": session.id, "title": session.title, "messages": counts.active, "seated": seated}
    lines = [
        f"Session: {session.title} ({session.id})" if session.title else f"Session: {session.id}",
        f"Messages: {counts.active}, {counted(counts.users, 'turn')}; last active {active}",
        *lines,
        f"Agent: {'at work' if conversation.busy else 'seated' if seated else 'at rest'}",
        *waiting(call),
    ]
    return CommandReply("\n".join(lines), ({"type": "status", **facts},))


def waiting(call: CommandCall) -> list[str]:
    """A line for each open permission request."""
    at_work = call.conversation.at_work
    asked = at_work.pending_permissions() if at_work else []
    return [f"Waits for permission: {permission.title} (/approve, /approve always or /deny)" for permission in asked]


COMMAND = ChatCommand("status", "show where this conversation stands", run, overtakes=True)
