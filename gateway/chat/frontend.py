"""Takes one message: a command, or a question to the agent. Every chat surface calls it.

Rules:
- A message is acknowledged only after its session has stored it: the first event of the answer comes after that.
- Messages and commands of one conversation are processed in order of arrival. A message holds the conversation's lock
  until its turn is queued, a command until it has run.
- While the gateway drains, no turn begins. Commands that only read, stop, or answer a permission request still run: the
  drain may be waiting for that answer.
- Text that begins with a slash word is never sent to the agent. A refused command replies with the reason; any other
  error is raised.
"""

from dataclasses import dataclass

from ostler.gateway.chat.admission import Admission
from ostler.gateway.chat.answer import MessageForm, notice_item
from ostler.gateway.chat.commands.registry import (
    ChatCommand,
    CommandCall,
    CommandKind,
    CommandReply,
    CommandWords,
    Registry,
    parse,
)
from ostler.gateway.chat.conversation import ChatConversation
from ostler.gateway.chat.deps import ChatDeps
from ostler.gateway.chat.message import AnswerStarted, ChatMessage, ChatResult, Notice
from ostler.gateway.chat.question import Question, question
from ostler.gateway.model.api_error import ApiError
from ostler.gateway.model.ask import Ask
from ostler.gateway.model.errors import RequestRefused
from ostler.gateway.model.keyed_locks import KeyedLocks
from ostler.gateway.turns.answer import AnswerStream, stored_items


@dataclass(frozen=True, slots=True)
class ChatFrontend:
    """The entry point of all chat surfaces. Created once, by `app.py`."""

    chat_deps: ChatDeps
    commands: Registry
    admission: Admission
    locks: KeyedLocks

    def asks(self, text: str) -> bool:
        """Whether this message may prompt an agent."""
        return self.commands.asks(parse(text))

    async def receive(self, message: ChatMessage) -> ChatResult:
        """Run the command that a message is, or queue its turn."""
        words = parse(message.text)
        if words is not None:
            return await self._called(message, words)
        self.chat_deps.sessions.check_open()
        asked = question(message.text, message.attachments, self.chat_deps.sessions.deps.ids.make)
        async with self.locks.hold(message.key.stored):
            admitted = await self.admission.admit(message.key, message.caller)
            ask = await self._addressed(admitted.conversation, asked)
            return self._ask(admitted.conversation, ask)

    async def _called(self, message: ChatMessage, words: CommandWords) -> ChatResult:
        command = self.commands.find(words.name)
        if command is None:
            return Notice(CommandKind.NOTICE, None, self.commands.unknown(words.name))
        if command.overtakes:
            return await self._run(message, words, command)
        self.chat_deps.sessions.check_open()
        async with self.locks.hold(message.key.stored):
            return await self._run(message, words, command)

    async def _run(self, message: ChatMessage, words: CommandWords, command: ChatCommand) -> ChatResult:
        conversation = await self.admission.find(message.key, message.caller)
        try:
            reply = await command.run(CommandCall(words, conversation, self.commands))
        except (RequestRefused, ApiError) as error:
            reply = CommandReply(str(error))
        if reply.ask is not None:
            await conversation.begun()
            conversation.notices += [reply.text] if reply.text else []
            ask = await self._addressed(conversation, reply.ask)
            return self._ask(conversation, ask)
        session, notices = conversation.session, conversation.notices
        items = (*(notice_item(text) for text in notices), *reply.items)
        return Notice(reply.kind, None if session is None else session.id, "\n\n".join([*notices, reply.text]), items)

    async def _addressed(self, conversation: ChatConversation, asked: Question) -> Ask:
        """Add the process key and the permission rule to a question."""
        key = await conversation.transport_key()
        return asked.ask(key, conversation.rule(key))

    def _ask(self, conversation: ChatConversation, ask: Ask) -> AnswerStarted:
        """Queue the turn. Must not await: turns are queued in the order of their messages."""
        sessions, session = self.chat_deps.sessions, conversation.session
        if session is None:
            raise RuntimeError("a question was asked in a conversation without a session")
        name, now = sessions.deps.ids.make("smsg"), int(sessions.deps.wall())
        form = MessageForm(name, session.id, now, notices=conversation.notices, read=ask.size)
        turn = sessions.start(sessions.of(session.id, session.owner or ""), ask, AnswerStream(name, stored_items))
        return AnswerStarted(turn, form)
