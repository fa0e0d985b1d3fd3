"""`/help`: list the commands, from the registry that runs them."""

from ostler.gateway.chat.commands.registry import ChatCommand, CommandCall, CommandReply


async def run(call: CommandCall) -> CommandReply:
    """List all commands, or explain one."""
    name = call.args.lstrip("/").lower()
    if not name:
        return CommandReply("\n".join(line(command) for command in call.commands))
    command = call.commands.find(name)
    return CommandReply(call.commands.unknown(name) if command is None else line(command))


def line(command: ChatCommand) -> str:
    """The help line of one command."""
    usage = f" {command.usage}" if command.usage else ""
    also = f" (also {', '.join(f'/{name}' for name in command.aliases)})" if command.aliases else ""
    return f"/{command.name}{usage}: {command.summary}{also}"


COMMAND = ChatCommand("help", "list the commands, or explain one", run, usage="[COMMAND]", overtakes=True)
