"""Who decides when an agent asks for permission: the operator, the session, or a person through the API."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ostler.demo.launch import command_line
from ostler.gateway.config.errors import ConfigError
from ostler.gateway.config.load import load
from ostler.gateway.http.decisions import PermissionAnswers, Settled
from ostler.gateway.http.items import ItemNames, decision_of
from ostler.gateway.model.ask import Ask, CallOutput
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.model.permits import PermissionRule
from ostler.gateway.ops.settings_check import check
from ostler.gateway.turns.answer import AnswerStream
from ostler.gateway.turns.session import Session
from ostler.pool.keys import TransportKey
from ostler.pool.prompt import TextPart
from tests.gateway.turns.test_client_tools import CALL, KEYS, TOOLS, calls_of, output
from tests.support.chats import Chat
from tests.support.serve_command import command
from tests.support.served import SESSION, Served, serving, text_of
from tests.support.waiting import eventually, soon

ASKING = {"permissions": "ask"}
ALLOWED, REJECTED = "selected: allow_once", "selected: reject_once"


def questions_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in response["output"] if item["type"] == "mcp_approval_request"]


def decision(question: dict[str, Any], *, approve: bool) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": question["id"], "approve": approve}


async def asked(served: Served, text: str = "!ask remove it", **fields: Any) -> dict[str, Any]:
    """The one question of a response."""
    answer = await served.ask(text, **fields)
    (question,) = questions_of(answer.json())
    return {"question": question, "response": answer.json(), "session": answer.headers[SESSION]}


@pytest.mark.parametrize(("approve", "heard"), [(True, ALLOWED), (False, REJECTED)])
async def test_a_question_is_an_item_and_its_answer_goes_on_in_the_same_turn(
    tmp_path: Path, approve: bool, heard: str
) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        first = await asked(served, "before\n!ask remove it\nafter", conversation="x")
        assert first["response"]["status"] == "completed"
        assert text_of(first["response"]) == "echo: before"
        assert first["question"] == {
            "type": "mcp_approval_request",
            "id": first["question"]["id"],
            "name": "remove it",
            "arguments": "{}",
            "server_label": "agent",
        }
        second = await served.ask([decision(first["question"], approve=approve)], conversation="x")
        assert text_of(second.json()).strip() == f"{heard}\necho: after"
        assert len(served.prompts()) == 1
        told = [item["activity"] for item in second.json()["output"] if "activity" in item]
        assert [(each["kind"], each["by"]) for each in told] == [("permission", "person")]


async def test_a_question_is_answered_by_previous_response_id_and_streams(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        events = await served.stream("!ask remove it")
        kinds = [event["type"] for event in events]
        assert kinds[-3:] == ["response.output_item.added", "response.output_item.done", "response.completed"]
        (question,) = questions_of(events[-1]["response"])
        more = await served.stream(
            [decision(question, approve=True)], previous_response_id=events[-1]["response"]["id"]
        )
        assert text_of(more[-1]["response"]) == ALLOWED


async def test_the_openai_client_reads_questions_strictly(tmp_path: Path) -> None:
    from openai import AsyncOpenAI

    async with (
        serving(tmp_path / "data", pool__permissions="ask") as served,
        AsyncOpenAI(base_url=f"{served.base}/v1", api_key="x", _strict_response_validation=True) as client,
    ):
        first = await client.responses.create(model="demo", input="!ask remove it")
        (question,) = first.output
        assert question.type == "mcp_approval_request"
        second = await client.responses.create(
            model="demo",
            previous_response_id=first.id,
            input=[{"type": "mcp_approval_response", "approval_request_id": question.id, "approve": True}],
        )
        assert second.output_text == ALLOWED


async def test_f22_each_session_has_its_own_policy_on_one_process(tmp_path: Path) -> None:
    async with serving(tmp_path / "more", pool__permissions="allow") as served:
        waiting = await asked(served, conversation="careful", metadata=ASKING)
        free, strict = await asyncio.gather(
            served.say("!ask a", conversation="free"),
            served.say("!ask b", conversation="strict", metadata={"permissions": "deny"}),
        )
        assert (free, strict) == (ALLOWED, REJECTED)
        second = await served.ask([decision(waiting["question"], approve=True)], conversation="careful")
        assert text_of(second.json()) == ALLOWED
        # The session's own word holds for its later turns too, and for nobody else's.
        assert await served.say("!ask c", conversation="strict") == REJECTED
        assert questions_of((await served.ask("!ask d", conversation="careful")).json())
        assert served.starts() == 1


async def test_the_narrower_of_key_and_model_holds_and_a_session_never_widens_it(tmp_path: Path) -> None:
    keys = [{"name": "one", "sha256": KEYS["one"], "permissions": "allow"}, {"name": "two", "sha256": KEYS["two"]}]
    models = {"demo/careful": "ask", "demo/tame": "deny"}
    async with serving(
        tmp_path / "data", auth__keys=keys, pool__permissions="deny", pool__model_permissions=models
    ) as served:

        async def say(key: str, model: str, **fields: Any) -> Any:
            headers = {"authorization": f"Bearer {key}"}
            body = {"model": model, "input": "!ask", **fields}
            return await served.http.post("/v1/responses", json=body, headers=headers)

        assert text_of((await say("one", "demo")).json()) == ALLOWED
        assert text_of((await say("two", "demo")).json()) == REJECTED
        assert questions_of((await say("one", "demo/careful")).json())
        assert text_of((await say("one", "demo/tame")).json()) == REJECTED
        assert text_of((await say("one", "demo", metadata={"permissions": "deny"})).json()) == REJECTED
        wider = await say("two", "demo", metadata=ASKING)
        assert (wider.status_code, wider.json()["error"]["code"]) == (403, "permissions_not_allowed")
        unknown = await say("one", "demo", metadata={"permissions": "maybe"})
        assert (unknown.status_code, unknown.json()["error"]["param"]) == (400, "metadata.permissions")


async def test_a_function_of_the_client_needs_no_permission(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="deny") as served:
        ours, others = "!ask mcp__ostler__get_weather", "!ask mcp__ostler__get_weather; rm"
        assert await served.say(ours, tools=TOOLS) == ALLOWED
        assert await served.say(others, tools=TOOLS) == REJECTED
        assert await served.say(ours) == REJECTED


async def test_n43_agents_are_made_to_ask_at_every_level(tmp_path: Path) -> None:
    for word, approval in ((None, "ask"), ("allow", "ask"), ("auto", "ask"), ("deny", "ask")):
        loaded = load({"HOME": str(tmp_path)}, overrides=[("pool.permissions", word)] if word else [])
        _, wanted = check(loaded.settings, tmp_path)
        assert {each.approval.value for name, each in wanted.providers.items() if name == "gemini-acp"} == {approval}


async def test_a_rule_that_cannot_be_kept_is_refused_and_not_served_as_if(tmp_path: Path) -> None:
    settings = {"pool__permissions": "ask", "providers__demo__approval": "auto"}
    with pytest.raises(ConfigError, match=r"default_model.*demo cannot be held to the permission level 'ask'"):
        async with serving(tmp_path / "data", **settings):
            pass
    async with serving(tmp_path / "data", gateway__default_model="gemini/x", **settings) as served:
        refused = await served.ask("hello")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permissions_not_kept")
    async with serving(tmp_path / "data", pool__model_permissions={"demo/*": "allow"}, **settings) as served:
        assert await served.say("hello") == "echo: hello"
    async with serving(tmp_path / "data") as served:
        assert questions_of((await served.ask("!ask", metadata=ASKING)).json())
        assert await served.say("!ask") == REJECTED


async def test_n43_an_agent_that_cannot_be_held_to_the_level_is_refused_unless_it_is_allowed_everything(
    tmp_path: Path,
) -> None:
    hermes = {"gateway__default_model": "hermes/x"}
    with pytest.raises(ConfigError, match=r'hermes-acp/\*" = "auto"'):
        async with serving(tmp_path / "data", **hermes):
            pass
    for allowed in ({"hermes/*": "auto"}, {"hermes-acp/x": "allow"}):
        async with serving(tmp_path / "data", pool__model_permissions=allowed, **hermes):
            pass
    # Nothing is known of an agent that is only configured; its operator may know that it asks.
    for section, status in (({}, 403), ({"approval": "ask"}, 200)):
        plain = {"command": command_line([]), **section}
        async with serving(tmp_path / "data", **{"providers.acp": plain}) as served:
            assert (await served.ask("hello", model="acp/plain")).status_code == status


async def test_n43_beyond_the_workspace_a_person_is_asked_and_an_api_client_hears_no(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        assert await served.say("!ask run it") == REJECTED
        chat = Chat(served)
        turn = asyncio.create_task(chat.send("!ask run it"))
        session = await asking(chat)
        (question,) = session.pending_permissions()
        assert question.title == "run it"
        await chat.said("/approve")
        assert (await turn).json()["text"] == ALLOWED


async def test_n43_a_yes_for_the_session_holds_for_that_session_and_that_deed(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        chat, other = Chat(served), Chat(served, "other")
        turn = asyncio.create_task(chat.send("!ask run it"))
        await asking(chat)
        assert "for this session" in await chat.text("/approve always")
        await turn
        assert await chat.text("!ask run it") == ALLOWED
        for face, order in ((chat, "!ask remove it"), (other, "!ask run it")):
            waiting = asyncio.create_task(face.send(order))
            await asking(face)
            await face.said("/deny")
            assert (await waiting).json()["text"] == REJECTED


async def test_n43_an_api_client_can_say_yes_for_the_session(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        first = await asked(served, "!ask run it", conversation="x")
        yes = {**decision(first["question"], approve=True), "always": True}
        assert text_of((await served.ask([yes], conversation="x")).json()) == ALLOWED
        assert await served.say("!ask run it", conversation="x") == ALLOWED
        assert questions_of((await served.ask("!ask run it", conversation="y")).json())


async def asking(chat: Chat) -> Session:
    """The session of the face, whose agent waits for an answer."""
    await eventually(lambda: chat.routed() is not None, "the session")
    found = chat.served.gateway.sessions.find(str(chat.routed()))
    assert found is not None
    await eventually(lambda: bool(found.pending_permissions()), "the agent asks")
    return found


async def test_nobody_answers_in_time_is_a_no_and_the_turn_goes_on(tmp_path: Path) -> None:
    settings = {"pool__permissions": "ask", "pool__permission_deadline": 0.2}
    async with serving(tmp_path / "data", **settings) as served:
        await asked(served, "!ask remove it", conversation="x")
        query = "select text from messages where role = 'assistant' order by id desc limit 1"
        await eventually(lambda: served.rows(query)[0][0] == REJECTED, "the agent hears no")
        assert "remove it" in await served.say("!recall", conversation="x")


async def test_waiting_for_a_decision_is_not_silence(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask", gateway__turn_inactivity=0.3) as served:
        first = await asked(served, conversation="x")
        session = served.gateway.sessions.find(first["session"])
        assert session is not None
        turn = session.turn
        assert turn is not None
        assert turn.agent is not None
        agent, before = turn.agent, turn.agent.count
        await eventually(lambda: agent.count > before + 16, "two limits have passed")
        second = await served.ask([decision(first["question"], approve=True)], conversation="x")
        assert text_of(second.json()) == ALLOWED


async def test_chat_completions_cannot_be_asked_and_say_no(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        body = {"model": "demo", "messages": [{"role": "user", "content": "!ask"}]}
        answer = await served.http.post("/v1/chat/completions", json=body)
        assert answer.json()["choices"][0]["message"]["content"] == REJECTED


async def test_a_decision_for_an_unknown_question_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        wrong = await served.ask([decision({"id": "mcpr_no"}, approve=True)])
        assert wrong.status_code == 400
        assert "mcpr_no" in wrong.json()["error"]["message"]
        shapeless = await served.ask([{"type": "mcp_approval_response", "approval_request_id": "mcpr_no"}])
        assert (shapeless.status_code, shapeless.json()["error"]["param"]) == (400, "input[0].approve")


async def settled(served: Served, question: dict[str, Any], **fields: Any) -> bool:
    """Whether a decision is refused because nobody waits for it, by its name and with a way on."""
    prompts = len(served.prompts())
    late = await served.ask([decision(question, approve=True)], **fields)
    error = late.json().get("error") or {}
    return (late.status_code, error.get("code"), error.get("param"), len(served.prompts()) - prompts) == (
        409,
        "approval_settled",
        "input",
        0,
    ) and all(words in error["message"] for words in (question["id"], "send a message"))


@pytest.mark.parametrize("approve", [True, False])
async def test_f22_a_question_that_was_answered_is_answered_no_more(tmp_path: Path, approve: bool) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        first = await asked(served, conversation="x")
        await served.ask([decision(first["question"], approve=approve)], conversation="x")
        assert await settled(served, first["question"], conversation="x")
        assert await settled(served, first["question"], previous_response_id=first["response"]["id"])
        # Of a client that brings the conversation along, too: the question is a part of what it sends.
        alone = await served.ask([first["question"], decision(first["question"], approve=True)])
        assert (alone.status_code, alone.json()["error"]["code"]) == (409, "approval_settled")


async def test_f22_of_two_answers_at_once_one_counts(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        first = await asked(served, "!ask remove it\n!sleep 0.2", conversation="x")
        both = await asyncio.gather(
            *(served.ask([decision(first["question"], approve=yes)], conversation="x") for yes in (True, False))
        )
        assert sorted(answer.status_code for answer in both) == [200, 409]
        assert len(served.prompts()) == 1


async def test_f22_what_is_decided_between_the_look_and_the_answer_is_decided(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        first = await asked(served, "!ask remove it\n!sleep 60", conversation="x")
        question, decisions = first["question"], PermissionAnswers(served.gateway.sessions)
        answer = [decision_of(decision(question, approve=True), "input[0]", ItemNames(str, ()))]
        await decisions.check(answer, "")
        session = served.gateway.sessions.find(first["session"])
        assert session is not None
        assert session.answer_permission(question["id"], allow=False)
        with pytest.raises(Settled, match=question["id"]):
            decisions.refuse(answer)
        with pytest.raises(Settled, match=question["id"]):
            await decisions.check(answer, "")
        await decisions.check(answer, "somebody else")
        session.stop_all(StopCause.CLIENT)


async def test_f22_the_answer_to_a_turn_that_was_stopped_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        first = await asked(served, conversation="x")
        assert await served.say("hello", conversation="x") == "echo: hello"
        assert await settled(served, first["question"], conversation="x")
        assert await settled(served, first["question"], previous_response_id=first["response"]["id"])


async def test_f22_silence_was_the_answer(tmp_path: Path) -> None:
    settings = {"pool__permissions": "ask", "pool__permission_deadline": 0.2}
    async with serving(tmp_path / "data", **settings) as served:
        first = await asked(served, conversation="x")
        await eventually(lambda: not served.gateway.sessions.running, "the turn goes on and ends")
        assert await settled(served, first["question"], conversation="x")
        # Its client has seen nothing since: it goes on in the same conversation, not in a branch of it.
        again = await served.ask("hello", previous_response_id=first["response"]["id"])
        assert (text_of(again.json()), again.headers[SESSION]) == ("echo: hello", first["session"])


async def test_f22_what_was_decided_on_another_face_is_decided(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        first = await asked(served, "!ask remove it\n!sleep 60", conversation="x")
        session = served.gateway.sessions.find(first["session"])
        assert session is not None
        assert session.answer_permission(first["question"]["id"], allow=True)
        assert await settled(served, first["question"], conversation="x")
        session.stop_all(StopCause.CLIENT)
        await eventually(lambda: not served.gateway.sessions.running, "the turn is over")
        assert await settled(served, first["question"], conversation="x")


async def test_f22_a_restart_in_good_order_leaves_the_question_open(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        first = await asked(served, conversation="x")
        await served.gateway.sessions.drain(5)
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        second = await served.ask([decision(first["question"], approve=True)], conversation="x")
        assert (second.status_code, second.headers[SESSION]) == (200, first["session"])
        assert "granted" in served.prompts()[-1]


async def test_f22_a_decision_of_somebody_else_is_unknown(tmp_path: Path) -> None:
    keys = [{"name": name, "sha256": digest} for name, digest in KEYS.items()]
    async with serving(tmp_path / "data", auth__keys=keys, pool__permissions="ask") as served:
        mine, theirs = [{"authorization": f"Bearer {name}"} for name in ("one", "two")]
        body = {"model": "demo", "conversation": "x"}
        first = await served.http.post("/v1/responses", json={**body, "input": "!ask"}, headers=mine)
        (question,) = questions_of(first.json())
        answer = [decision(question, approve=True)]
        for _ in range(2):
            foreign = await served.http.post("/v1/responses", json={**body, "input": answer}, headers=theirs)
            assert foreign.status_code == 400
            await served.http.post("/v1/responses", json={**body, "input": answer}, headers=mine)


async def test_n37_an_answer_of_somebody_else_uses_up_no_question_and_no_call(tmp_path: Path) -> None:
    keys = [{"name": name, "sha256": digest} for name, digest in KEYS.items()]
    async with serving(tmp_path / "data", auth__keys=keys, pool__permissions="ask") as served:
        mine, theirs = [{"authorization": f"Bearer {name}"} for name in ("one", "two")]
        body = {"model": "demo", "conversation": "x"}
        first = await served.http.post("/v1/responses", json={**body, "input": "!ask"}, headers=mine)
        (question,) = questions_of(first.json())
        answer = decision(question, approve=False)
        # With the question itself, as a client does that brings its conversation along.
        forged = {"model": "demo", "input": [question, answer]}
        assert (await served.http.post("/v1/responses", json=forged, headers=theirs)).status_code == 200
        # And beside the result of a call of their own.
        asked = {"model": "demo", "input": CALL, "tools": TOOLS, "conversation": "y"}
        (call,) = calls_of((await served.http.post("/v1/responses", json=asked, headers=theirs)).json())
        session = served.gateway.sessions.waiting_for(call["call_id"], "two")
        assert session is not None
        results = [
            CallOutput(each, "no", {"type": "function_call_output"}, ()) for each in (question["id"], call["call_id"])
        ]
        turn = served.gateway.sessions.resume(session, AnswerStream("resp_1"), results)
        assert turn is not None
        await soon(turn.over.wait(), "the turn ends with its result")
        assert served.rows("select state from parked_calls where call_id = ?", question["id"]) == [("waiting",)]
        allowed = {**body, "input": [decision(question, approve=True)]}
        second = await served.http.post("/v1/responses", json=allowed, headers=mine)
        assert (second.status_code, text_of(second.json())) == (200, ALLOWED)


async def test_calls_and_questions_of_one_turn_come_one_after_another(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        first = await asked(served, f"!ask first\n{CALL}", tools=TOOLS, conversation="x")
        middle = await served.ask([decision(first["question"], approve=True)], tools=TOOLS, conversation="x")
        (call,) = calls_of(middle.json())
        last = await served.ask([output(call, "sunny")], tools=TOOLS, conversation="x")
        assert text_of(last.json()).strip() == "sunny"
        assert len(served.prompts()) == 1


async def test_the_port_of_chat_faces_decides_while_the_turn_goes_on(served: Served) -> None:
    opened = (await served.ask("hello", conversation="x")).headers[SESSION]
    sessions = served.gateway.sessions
    session = sessions.of(opened, "")
    key = TransportKey("demo", "demo", str(served.folder / "work"))
    ask = Ask(key, (TextPart("!ask remove it"),), "!ask remove it", ({"type": "message"},), rule=PermissionRule.ASK)
    turn = sessions.start(session, ask, AnswerStream("turn_1"))
    await eventually(lambda: bool(session.pending_permissions()), "the agent asks")
    (question,) = session.pending_permissions()
    assert (question.title, question.arguments) == ("remove it", "{}")
    assert not session.answer_permission("mcpr_other", allow=True)
    assert session.answer_permission(question.id, allow=True)
    assert not session.answer_permission(question.id, allow=True)
    await turn.over.wait()
    query = "select text from messages where role = 'assistant' order by id desc limit 1"
    assert served.rows(query) == [(ALLOWED,)]
    assert session.pending_permissions() == []


async def test_what_an_api_client_was_asked_can_be_decided_on_another_face(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        first = await asked(served, conversation="x")
        session = served.gateway.sessions.find(first["session"])
        assert session is not None
        assert session.answer_permission(first["question"]["id"], allow=True)
        query = "select text from messages where role = 'assistant' order by id desc limit 1"
        await eventually(lambda: served.rows(query)[0][0] == ALLOWED, "the turn goes on with nobody listening")
        assert await served.say("hello", conversation="x") == "echo: hello"


async def test_a_new_question_of_the_user_drops_the_open_one(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        await asked(served, conversation="x")
        assert await served.say("hello", conversation="x") == "echo: hello"


@pytest.mark.parametrize("kind", ["call", "question"])
def test_z3_a_kill_between_what_was_handed_out_and_its_answer_is_bridged_by_replay(tmp_path: Path, kind: str) -> None:
    record = tmp_path / "record.jsonl"
    args = json.dumps(["--record", str(record)])
    settings = {"OSTLER_POOL__PERMISSIONS": "ask", "OSTLER_PROVIDERS__DEMO__ARGS": args}
    body = {"model": "demo", "conversation": "x", "tools": TOOLS}
    with command(tmp_path, **settings) as running, running.http() as http:
        first = http.post("/v1/responses", json={**body, "input": CALL if kind == "call" else "!ask remove it"})
        os.kill(running.process.pid, signal.SIGKILL)
    asked = first.json()
    answers = [output(call, "sunny") for call in calls_of(asked)]
    answers += [decision(question, approve=True) for question in questions_of(asked)]
    with command(tmp_path, **settings) as running, running.http() as http:
        second = http.post("/v1/responses", json={**body, "input": answers})
        assert second.status_code == 200, second.text
        assert second.headers[SESSION] == first.headers[SESSION]
        prompt = [line for line in record.read_text().splitlines() if "session/prompt" in line][-1]
        said = ["called get_weather", "sunny"] if kind == "call" else ["asked for permission: remove it", "granted"]
        assert [words in prompt for words in said] == [True, True]
        again = http.post("/v1/responses", json={**body, "input": "hello"})
        assert text_of(again.json()) == "echo: hello"
        late = http.post("/v1/responses", json={**body, "input": answers})
        refused = (late.status_code, late.json()["error"]["code"])
        assert refused == (409, "approval_settled" if kind == "question" else "call_answered")


async def test_w06_a_yes_of_one_turn_is_not_in_force_in_the_next(tmp_path: Path) -> None:
    """Neither that of a person, nor that of the rule under which a turn ran."""
    models = {"demo/free": "allow"}
    async with serving(tmp_path / "data", pool__permissions="ask", pool__model_permissions=models) as served:
        first = await asked(served, conversation="x")
        second = await served.ask([decision(first["question"], approve=True)], conversation="x")
        assert text_of(second.json()) == ALLOWED
        again = await asked(served, conversation="x")
        assert again["question"]["id"] != first["question"]["id"]
        assert again["session"] == first["session"]
        refused = await served.ask([decision(again["question"], approve=False)], conversation="x")
        assert text_of(refused.json()) == REJECTED
        assert await served.say("!ask remove it", model="demo/free", conversation="y") == ALLOWED
        assert (await asked(served, conversation="y"))["question"]
