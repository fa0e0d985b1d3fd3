"""Any sequence of calls, restarts among them, against a plain model: dictionaries and lists."""

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ostler.gateway.model.errors import NoSuchSession, TitleTaken, UnknownMessage
from ostler.gateway.model.records import NewMessage, NewSession, TurnCommit
from ostler.gateway.model.store import Store
from tests.support.stores import KINDS, Place, response, those_kept

NAMES = st.sampled_from(["sess_a", "sess_b", "sess_c"])
EVERY_SLUG = ("one", "two")
SLUGS = st.sampled_from(EVERY_SLUG)
WORDS = st.sampled_from(["apple", "berry", "cherry"])
TITLES = st.sampled_from(["P", "P #2", "Q"])


@dataclass
class Said:
    id: int
    text: str
    state: str = "active"


@dataclass
class Model:
    """What a store should know."""

    sessions: dict[str, list[Said]] = field(default_factory=dict)
    ended: dict[str, str | None] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    routes: dict[str, str] = field(default_factory=dict)
    slugs: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    responses: set[str] = field(default_factory=set)
    newest: int = 0

    def active(self, name: str) -> list[Said]:
        return [said for said in self.sessions.get(name, []) if said.state == "active"]

    def add(self, name: str, ids: list[int], words: list[str]) -> None:
        assert len(ids) == len(words)
        for ident, text in zip(ids, words, strict=True):
            assert ident > self.newest
            self.newest = ident
            self.sessions[name].append(Said(ident, text))


def spoken(words: list[str]) -> list[NewMessage]:
    return [NewMessage("user", [{"type": "input_text", "text": word}], word) for word in words]


class StoreMachine(RuleBasedStateMachine):
    """One store and its model."""

    kind = ""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.place = Place(self.kind, KINDS[self.kind], Path(self.folder.name))
        self.model = Model()
        self.count = 0

    @initialize()
    def open(self) -> None:
        self.store: Store = self.runner.run(self.place.open())

    def teardown(self) -> None:
        self.runner.run(self.store.aclose())
        self.runner.close()
        self.folder.cleanup()

    def attempt(self, call: Any, known: bool) -> Any:
        """The value, or None where the session is not known and the store must say so."""
        if known:
            return self.runner.run(call)
        with pytest.raises(NoSuchSession):
            self.runner.run(call)
        return None

    @rule()
    def restart(self) -> None:
        self.runner.run(self.store.aclose())
        self.open()

    @rule(name=NAMES)
    def create(self, name: str) -> None:
        self.runner.run(self.store.create_session(NewSession(name)))
        self.model.sessions.setdefault(name, [])
        self.model.ended.setdefault(name, None)

    @rule(name=NAMES, words=st.lists(WORDS, max_size=3))
    def append(self, name: str, words: list[str]) -> None:
        ids = self.attempt(self.store.append(name, spoken(words)), name in self.model.sessions)
        if ids is not None:
            self.model.add(name, ids, words)

    @rule(name=NAMES, slug=st.none() | SLUGS, words=st.lists(WORDS, max_size=2))
    def turn(self, name: str, slug: str | None, words: list[str]) -> None:
        self.count += 1
        made = response(f"resp_{self.count}", name)
        turn = TurnCommit(name, spoken(words), made, slug)
        ids = self.attempt(self.store.commit_turn(turn), name in self.model.sessions)
        if ids is None:
            return
        self.model.add(name, ids, words)
        self.model.responses.add(made.id)
        if slug in self.model.slugs and self.model.slugs[slug][0] in (None, name):
            self.model.slugs[slug] = (name, made.id)

    @rule(name=NAMES, back=st.integers(0, 4))
    def undo(self, name: str, back: int) -> None:
        active = self.model.active(name)
        if back >= len(active):
            with pytest.raises(UnknownMessage):
                self.runner.run(self.store.deactivate_from(name, self.model.newest + 1))
            return
        gone = self.runner.run(self.store.deactivate_from(name, active[-1 - back].id))
        assert [message.text for message in gone] == [said.text for said in active[-1 - back :]]
        for said in active[-1 - back :]:
            said.state = "undone"

    @rule(name=NAMES, words=st.lists(WORDS, max_size=3))
    def rewrite(self, name: str, words: list[str]) -> None:
        ids = self.attempt(self.store.rewrite_transcript(name, spoken(words)), name in self.model.sessions)
        if ids is not None:
            for said in self.model.active(name):
                said.state = "undone"
            self.model.add(name, ids, words)

    @rule(name=NAMES, reason=st.sampled_from(["idle", "daily"]))
    def end(self, name: str, reason: str) -> None:
        first = name in self.model.sessions and self.model.ended[name] is None
        assert self.runner.run(self.store.end_session(name, reason)) == first
        if first:
            self.model.ended[name] = reason

    @rule(name=NAMES)
    def reopen(self, name: str) -> None:
        assert self.runner.run(self.store.reopen_session(name)) == (self.model.ended.get(name) is not None)
        if name in self.model.ended:
            self.model.ended[name] = None

    @rule(name=NAMES, title=TITLES)
    def entitle(self, name: str, title: str) -> None:
        holder = next((other for other, has in self.model.titles.items() if has == title), name)
        if name in self.model.sessions and holder != name:
            with pytest.raises(TitleTaken) as refused:
                self.runner.run(self.store.set_title(name, title))
            assert refused.value.session_id == holder
        elif self.attempt(self.store.set_title(name, title), name in self.model.sessions) is not None:
            self.model.titles[name] = title

    @rule(name=NAMES)
    def lead(self, name: str) -> None:
        if name not in self.model.sessions:
            self.attempt(self.store.set_route("key", name), known=False)
            return
        self.runner.run(self.store.set_route("key", name))
        self.model.routes["key"] = name

    @rule(slug=SLUGS, left=st.none() | NAMES, name=NAMES)
    def move_slug(self, slug: str, left: str | None, name: str) -> None:
        session, latest = self.model.slugs.get(slug, (None, None))
        assert self.runner.run(self.store.move_conversation(slug, left, name)) == (session == left)
        if session == left:
            self.model.slugs[slug] = (name, latest)

    @rule(number=st.integers(1, 5))
    def delete_response(self, number: int) -> None:
        ident = f"resp_{number}"
        assert self.runner.run(self.store.delete_response(ident)) == (ident in self.model.responses)
        self.model.responses.discard(ident)

    @invariant()
    def sessions_agree(self) -> None:
        found = {session.id: session for session in self.runner.run(self.store.list_sessions())}
        assert set(found) == set(self.model.sessions)
        for name, session in found.items():
            assert session.message_count == len(self.model.active(name))
            assert session.end_reason == self.model.ended[name]
            assert session.title == self.model.titles.get(name)

    @invariant()
    def transcripts_agree(self) -> None:
        for name, everything in self.model.sessions.items():
            history = self.runner.run(self.store.history(name))
            assert [(m.id, m.text) for m in history] == [(said.id, said.text) for said in self.model.active(name)]
            audit = self.runner.run(self.store.audit(name))
            assert [m.id for m in audit] == [said.id for said in everything]
            assert [m.active for m in audit] == [said.state == "active" for said in everything]
            assert not any(m.compacted for m in audit)

    @invariant()
    def search_agrees(self) -> None:
        for word in ("apple", "berry"):
            expected = {
                said.id
                for everything in self.model.sessions.values()
                for said in everything
                if said.text == word and said.state != "undone"
            }
            assert {hit.message_id for hit in self.runner.run(self.store.search(word, limit=1000))} == expected

    @invariant()
    def leads_agree(self) -> None:
        route = self.runner.run(self.store.route("key"))
        assert (None if route is None else route.session_id) == self.model.routes.get("key")
        for slug in EVERY_SLUG:
            at = self.runner.run(self.store.get_conversation(slug))
            assert (None if at is None else (at.session_id, at.response_id)) == self.model.slugs.get(slug)
        made = [f"resp_{number}" for number in range(1, self.count + 1)]
        assert set(self.runner.run(those_kept(self.store, *made))) == self.model.responses


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_rh1_rd3_rd4_any_sequence_of_calls_agrees_with_a_plain_model(kind: str) -> None:
    bounded = settings(
        max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    run_state_machine_as_test(type("Machine", (StoreMachine,), {"kind": kind}), settings=bounded)
