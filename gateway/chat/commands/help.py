"""`/help`: every command there is, from the same registry that runs them."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply


async def run(call: CommandCall) -> CommandReply:
    """All of them, or one."""
    name = call.args.lstrip("/").lower()
    if not name:
        return CommandReply("\n".join(line(command) for command in call.commands))
    command = call.commands.find(name)
    return CommandReply(call.commands.unknown(name) if command is None else line(command))


def line(command: ChatCommand) -> str:
    """One command for a person."""
    usage = f" {command.usage}" if command.usage else ""
    also = f" (also {', '.join(f'/{name}' for name in command.aliases)})" if command.aliases else ""
    return f"/{command.name}{usage}: {command.summary}{also}"


COMMAND = ChatCommand("help", "list the commands, or explain one", run, usage="[COMMAND]", overtakes=True)
