"""A conversation that many clients use at once, played step by step: every place where the gateway waits between a look
and a write is a place where any other step may come first.

Rules:
- A client's request is a generator: what stands between two `yield`s happens without a wait, as on the event loop or
  inside a transaction of the store. Which one goes on next is drawn from a seed.
- Every decision is `continuity`'s, through `Decider`, so that a mutant is a decider with one of them replaced.
- The world keeps beside the state what really happened (which question was told to which agent, which answer went on
  from which), and `check` holds the state against that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ostler.gateway.model import continuity
from ostler.gateway.model.continuity import ConversationName, Known, Queue, Way
from ostler.gateway.model.records import ParkState

Step = Generator[None, None, None]
SLUG = "x"


def untold(known: Known, tail: Sequence[int]) -> tuple[int, ...] | None:
    return known.untold(tail)


def keeps_queued(status: str) -> bool:
    return status == "queued"


def takes_back(own: Sequence[int], _stored: Sequence[int]) -> list[int]:
    return list(own)


def fork_instructions(held: str, _now: str) -> str:
    return held


@dataclass(frozen=True)
class Decider:
    """The decisions of the gateway."""

    turn_updates: Callable[[ConversationName | None, str], bool] = continuity.turn_updates
    command_moves: Callable[[ConversationName | None, str | None], bool] = continuity.command_moves
    joins: Callable[[str, Queue], bool] = continuity.joins
    way_on: Callable[..., Way] = continuity.way_on
    cut: Callable[..., int] = continuity.cut
    untold: Callable[[Known, Sequence[int]], tuple[int, ...] | None] = untold
    stays: Callable[..., bool] = continuity.stays
    answered_before: Callable[[Mapping[str, str]], list[str]] = continuity.answered_before
    keeps_queued: Callable[[str], bool] = keeps_queued
    takes_back: Callable[[Sequence[int], Sequence[int]], list[int]] = takes_back
    fork_instructions: Callable[[str, str], str] = fork_instructions


@dataclass
class Message:
    id: int
    text: str
    answer: str | None = None
    active: bool = True


@dataclass
class Response:
    id: str
    session: str
    status: str
    question: str
    instructions: str = ""
    before: frozenset[str] = frozenset()
    """The questions its agent was told, and its own."""
    previous: str | None = None
    slug: bool = False
    silent: bool = True
    """Whether it left nothing in the conversation."""


@dataclass(eq=False)
class Turn:
    id: str
    question: str
    after: Response | None = None
    """What it goes on from; None: whatever the session says."""
    instructions: str = ""
    receipt: bool = False
    slug: bool = False
    forked: bool = False
    knew: frozenset[str] | None = None
    """The questions that a fork takes along; None: whatever the session said."""
    call: str = ""
    """The call that it brings a result of."""
    stop: str = ""
    asked: int | None = None
    own: set[int] = field(default_factory=set)
    told: bool = False


@dataclass(eq=False)
class Place:
    turn: Turn | None = None
    given_back: bool = False


@dataclass
class Session:
    """In memory: gone with the process."""

    queue: list[Place] = field(default_factory=list)
    turn: Turn | None = None
    working: bool = False
    known: Known | None = None
    memory: list[str] = field(default_factory=list)
    """What the agent under the seat was told, in order."""


class World:
    """One database, one process at a time."""

    def __init__(self, seed: int, decider: Decider) -> None:
        self.rng = random.Random(seed)
        self.does = decider
        self.messages: dict[str, list[Message]] = {}
        self.responses: dict[str, Response] = {}
        self.instructions: dict[str, str] = {}
        self.calls: dict[str, str] = {}
        self.slug: ConversationName | None = None
        self.led: str | None = None
        """Where the last client that moved the name led it."""
        self.live: dict[str, Session] = {}
        self.running: list[Step] = []
        self.ids = 0
        self.names = 0
        self.told: set[str] = set()
        self.must_stay: set[str] = set()
        self.must_go: set[str] = set()
        self.taken: dict[str, int] = {}
        self.harm: list[str] = []

    # --- the store ---

    def append(self, session: str, text: str, answer: str | None = None) -> int:
        self.ids += 1
        self.messages[session].append(Message(self.ids, text, answer))
        return self.ids

    def active(self, session: str) -> list[Message]:
        return [message for message in self.messages[session] if message.active]

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def fresh(self, instructions: str = "") -> str:
        session = self.name("s")
        self.messages[session] = []
        self.instructions[session] = instructions
        return session

    def at_work(self, session: str) -> Session:
        return self.live.setdefault(session, Session())

    # --- requests ---

    def on_slug(self, *, receipt: bool = False) -> Step:
        """A question to the name."""
        found = self.slug
        yield
        if found is None or found.session_id is None:
            if self.slug is None:
                session = self.fresh()
                self.slug, self.led = ConversationName(session), session
            session = str(self.slug.session_id)
        else:
            session = found.session_id
        yield
        turn = Turn(self.name("r"), self.name("q"), receipt=receipt, slug=True)
        yield from self.begin(session, turn, None)

    def alone(self) -> Step:
        """A question with no reference at all."""
        yield
        yield from self.begin(self.fresh(), Turn(self.name("r"), self.name("q")), None)

    def begin(self, session: str, turn: Turn, place: Place | None) -> Step:
        """Into the queue; a receipt is durable before it is given."""
        at_work = self.at_work(session)
        previous = None if turn.after is None else turn.after.id
        made = Response(turn.id, session, "fresh", turn.question, previous=previous, slug=turn.slug)
        self.responses[turn.id] = made
        if turn.receipt:
            self.responses[turn.id].status = "queued"
        if place is None:
            at_work.queue.append(Place(turn))
        else:
            place.turn = turn
        self.start(session)
        if self.rng.random() < 0.3:
            self.running.append(self.stops(turn, "client"))
        yield

    def start(self, session: str) -> None:
        at_work = self.at_work(session)
        if not at_work.working:
            at_work.working = True
            self.running.append(self.work(session, at_work))

    def go_on(self, after: Response, *, instructions: str = "", call: str = "") -> Step:
        """A question behind a response, or the result of a call that it made."""
        session = after.session
        yield
        at_work = self.at_work(session)
        last = at_work.queue[-1].turn if at_work.queue else at_work.turn
        busy = at_work.working or bool(at_work.queue)
        place: Place | None = None
        if self.does.joins(after.id, Queue(busy, last.id if last is not None else None)):
            place = Place()
            at_work.queue.append(place)
            self.start(session)
        yield
        finished = self.responses[after.id].status not in ("fresh", "queued", "in_progress")
        size, total = self.cut_of(after), len(self.active(session))
        way = self.does.way_on(size, total, joined=place is not None, finished=finished, waits=False)
        yield
        if place is not None and way is not Way.GO_ON:
            place.given_back = True
            place = None
        if way is Way.WAIT:
            return
        knew: frozenset[str] | None = None
        if way is Way.FORK:
            history, knew = self.active(session), self.may_know(after)
            size = self.cut_of(after)
            held = after.instructions if finished else self.instructions[session]
            yield
            child = self.fresh(self.does.fork_instructions(held, self.instructions[session]))
            if finished and self.instructions[child] != held:
                self.harm.append(f"a fork of {after.id} has the instructions of another request")
            for message in history[:size]:
                self.append(child, message.text, message.answer)
            session = child
        turn = Turn(self.name("r"), self.name("q"), after, instructions, call=call, forked=way is Way.FORK, knew=knew)
        yield from self.begin(session, turn, place)

    def may_know(self, after: Response | None) -> frozenset[str] | None:
        """The questions that a turn behind this response may be told; None: whatever its session says."""
        while after is not None and after.silent:
            if after.slug:
                return None
            if after.previous is None:
                return frozenset()
            after = self.responses[after.previous]
        return None if after is None else after.before

    def cut_of(self, after: Response) -> int:
        """As the gateway looks for it: a response that left nothing counts as the one before it."""
        session = after.session
        answers = [message.answer for message in self.active(session)]
        while (silent := after.id not in answers) and after.previous is not None:
            after = self.responses[after.previous]
        begins = silent and after.previous is None and not after.slug
        turn = self.at_work(session).turn
        return self.does.cut(answers, after.id, begins=begins, running=() if turn is None else (turn.id,))

    def deletes(self) -> Step:
        self.slug, self.led = None, None
        yield

    def moves(self) -> Step:
        """A command that leads the name to a new session, and takes its time."""
        found = self.slug
        yield
        if found is None:
            return
        session = self.fresh()
        yield
        left = found.session_id
        if self.does.command_moves(self.slug, left):
            if self.slug is None:
                self.harm.append("a command brought a deleted conversation back")
            self.slug, self.led = ConversationName(session), session

    def adds(self) -> Step:
        """An item, by whoever has the name."""
        if self.slug is not None and self.slug.session_id is not None:
            text = self.name("i")
            self.append(self.slug.session_id, text)
            self.must_stay.add(text)
        yield

    def stops(self, turn: Turn, why: str) -> Step:
        yield
        turn.stop = turn.stop or why

    # --- the line of a turn ---

    def work(self, session: str, at_work: Session) -> Step:
        while at_work.queue:
            place = at_work.queue.pop(0)
            while place.turn is None and not place.given_back:
                yield
            if place.turn is not None:
                at_work.turn = place.turn
                yield from self.run(session, at_work, place.turn)
                at_work.turn = None
        at_work.working = False

    def run(self, session: str, at_work: Session, turn: Turn) -> Step:
        if not turn.stop:
            yield from self.remember(session, turn)
        if not turn.stop and turn.asked is not None:
            yield from self.prompt(session, at_work, turn)
        yield
        stays = self.does.stays(told=turn.told, receipt=turn.receipt, drained=turn.stop == "drain")
        if not stays and turn.asked is not None:
            stored = [message.id for message in self.messages[session] if message.id >= turn.asked]
            gone = self.does.takes_back(sorted(turn.own), stored)
            for message in self.messages[session]:
                message.active = message.active and message.id not in gone
            if turn.call in self.calls:
                self.calls[turn.call] = ParkState.WAITING
                self.taken[turn.call] -= 1
        if stays and turn.asked is None:
            self.keep(session, self.responses[turn.id])
        yield
        self.end(session, at_work, turn)

    def remember(self, session: str, turn: Turn) -> Step:
        """The write is under way, whoever leaves meanwhile."""
        yield
        if turn.call:
            if self.does.answered_before({turn.call: self.calls[turn.call]}):
                turn.stop = "refused"
                return
            self.calls[turn.call] = ParkState.ANSWERED
            self.taken[turn.call] = self.taken.get(turn.call, 0) + 1
        turn.asked = self.append(session, turn.question, turn.id)
        turn.own.add(turn.asked)
        self.responses[turn.id].status = "in_progress"
        self.instructions[session] = turn.instructions or self.instructions[session]
        yield

    def prompt(self, session: str, at_work: Session, turn: Turn) -> Step:
        asked = turn.asked or 0
        left: tuple[int, ...] | None = None
        if at_work.known is not None:
            tail = [m.id for m in self.active(session) if at_work.known.through < m.id < asked]
            left = self.does.untold(at_work.known, tail)
        yield
        if turn.stop:
            return
        if left is None:
            at_work.memory = []
            left = tuple(message.id for message in self.active(session) if message.id < asked)
        by_id = {message.id: message.text for message in self.messages[session]}
        at_work.memory += [*(by_id[each] for each in left), turn.question]
        turn.told = True
        response = self.responses[turn.id]
        response.silent, response.before = False, frozenset(at_work.memory)
        self.told.add(turn.question)
        said = [message.text for message in self.active(session) if message.id < asked]
        heard = [text for text in at_work.memory[:-1] if not text.startswith("a")]
        if sorted(heard) != sorted(text for text in said if not text.startswith("a")):
            self.harm.append(f"{turn.question}: the agent knows {heard}, the conversation says {said}")
        known = turn.knew if turn.forked else self.may_know(turn.after)
        questions = {text for text in heard if text.startswith("q")}
        if known is not None and questions != {text for text in known if text.startswith("q")}:
            self.harm.append(f"{turn.question} was told {questions}, and goes on from {known}")
        yield

    def end(self, session: str, at_work: Session, turn: Turn) -> None:
        """One transaction, then what memory keeps of it."""
        response = self.responses[turn.id]
        response.status, response.instructions = "completed", self.instructions[session]
        if turn.told or (turn.receipt and turn.stop == "drain"):
            self.must_stay.add(turn.question)
        else:
            self.must_go.add(turn.question)
        if turn.told:
            text = self.name("a")
            turn.own.add(self.append(session, text, turn.id))
            at_work.memory.append(text)
        if turn.slug and self.does.turn_updates(self.slug, session):
            self.slug = ConversationName(session)
        whole = turn.told and turn.asked is not None and not turn.stop
        at_work.known = Known((turn.asked or 0) - 1, frozenset(turn.own)) if whole else None
        if self.rng.random() < 0.2:
            call = self.name("c")
            self.calls[call] = ParkState.WAITING
            for _ in range(self.rng.randrange(1, 4)):
                self.running.append(self.go_on(response, call=call))

    def keep(self, session: str, response: Response) -> None:
        """A question that nobody was asked."""
        response.before = frozenset(message.text for message in self.active(session)) | {response.question}
        response.silent = False
        self.append(session, response.question, response.id)

    # --- the end of a process ---

    def drain(self) -> None:
        """Everything is stopped and may end, what waits behind what runs."""
        for at_work in self.live.values():
            for turn in [at_work.turn, *(place.turn for place in at_work.queue)]:
                if turn is not None:
                    turn.stop = turn.stop or "drain"
        self.settle()

    def restart(self) -> None:
        """Whatever was under way is cut where it stands."""
        self.running, self.live = [], {}
        for response in sorted(self.responses.values(), key=lambda one: int(one.id[1:])):
            if self.does.keeps_queued(response.status):
                self.keep(response.session, response)
            if response.status == "queued":
                self.must_stay.add(response.question)
            elif response.status == "in_progress" and response.silent:
                response.before = frozenset(message.text for message in self.active(response.session))
                response.silent = response.question not in response.before
            response.status = "completed" if response.status == "completed" else "incomplete"

    def settle(self) -> None:
        """Nothing new comes; what runs ends."""
        for _ in range(100_000):
            if not self.running:
                return
            self.step()
        self.harm.append("it never comes to an end")

    def step(self) -> None:
        one = self.rng.choice(self.running)
        try:
            next(one)
        except StopIteration:
            self.running.remove(one)

    def act(self) -> None:
        """A client comes."""
        done = [response for response in self.responses.values() if response.status == "completed"]
        made = [response for response in self.responses.values() if response.status in ("queued", "in_progress")]
        match self.rng.randrange(13):
            case 0 | 1 | 2:
                self.running.append(self.on_slug(receipt=self.rng.random() < 0.5))
            case 3 | 4 | 5 if done:
                after = self.rng.choice(done[-4:])
                words = self.name("w") if self.rng.random() < 0.3 else ""
                self.running += [self.go_on(after, instructions=words) for _ in range(self.rng.randrange(1, 4))]
            case 6 if made:
                after = self.rng.choice(made)
                self.running += [self.go_on(after) for _ in range(2)]
            case 7 | 8:
                self.running.append(self.adds())
            case 9:
                self.running.append(self.deletes())
            case 10:
                self.running.append(self.moves())
            case 12:
                self.running.append(self.alone())
            case 11 if self.rng.random() < 0.3:
                if self.rng.random() < 0.5:
                    self.drain()
                self.restart()
            case _:
                return

    def check(self) -> None:
        """What must be true whenever nothing runs."""
        if (None if self.slug is None else self.slug.session_id) != self.led:
            self.harm.append(f"the name leads to {self.slug}, and was led to {self.led}")
        said = [message.text for session in self.messages for message in self.active(session)]
        for text in self.must_stay - set(said):
            self.harm.append(f"{text} is missing")
        for text in (self.must_go - self.must_stay) & set(said):
            self.harm.append(f"{text} is a phantom")
        for session in self.messages:
            texts = [message.text for message in self.active(session)]
            if len(texts) != len(set(texts)):
                self.harm.append(f"{session} says something twice: {texts}")
        for call, times in self.taken.items():
            if times > 1:
                self.harm.append(f"the result of {call} was taken {times} times")


def walk(seed: int, decider: Decider, steps: int = 250) -> list[str]:
    """What went wrong on the way."""
    world = World(seed, decider)
    for _ in range(steps):
        if world.rng.random() < 0.25 or not world.running:
            world.act()
        else:
            world.step()
        if world.harm:
            return world.harm
    world.settle()
    world.check()
    world.drain()
    world.restart()
    world.check()
    return world.harm


def mutant(**replaced: Callable[..., object]) -> Decider:
    """The decider with one decision made wrongly."""
    return replace(Decider(), **replaced)  # type: ignore[arg-type] # each has the shape of what it replaces
