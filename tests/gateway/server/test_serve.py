"""`ostler serve` from outside: start, signals, restarts, kill -9, flags, locks, and what it refuses."""

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.database import look
from tests.support.plain_http import NO_AUTHORITIES
from tests.support.serve_command import Command, answering, command, environment, refused
from tests.support.served import SESSION, events_of, text_of

pytestmark = pytest.mark.long
SLOW = json.dumps({"model": "demo", "input": "begun\n!sleep 60", "conversation": "slow", "stream": True})


def say(http: httpx.Client, text: str, **fields: Any) -> dict[str, Any]:
    answer = http.post("/v1/responses", json={"model": "demo", "input": text, **fields})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_first_start_serves_the_demo_agent_and_says_what_next(tmp_path: Path) -> None:
    with command(tmp_path, whole=True) as running, running.http() as http:
        assert text_of(say(http, "hello")) == "echo: hello"
        rest = [running.process.stdout.readline() for _ in range(3)] if running.process.stdout else []
        assert ["curl" in rest[0], "ostler chat" in rest[1], "ostler.toml" in rest[2]] == [True] * 3
        assert running.end() == 0


def test_a_first_start_with_a_key_says_that_it_is_needed(tmp_path: Path) -> None:
    key = "a-key-of-more-than-16-characters"
    with command(tmp_path, "--host", "0.0.0.0", OSTLER_API_KEY=key) as running, running.http() as http:
        assert "no key is needed" not in running.said[0]
        assert "OSTLER_API_KEY" in running.said[0]
        advice = running.process.stdout.readline() if running.process.stdout else ""
        line = advice.strip().removeprefix("try it:  ").replace("curl", "curl --silent --noproxy '*'", 1)
        tried = subprocess.run(
            ["sh", "-c", line], env={**os.environ, "OSTLER_API_KEY": key}, capture_output=True, text=True, check=True
        )
        assert text_of(json.loads(tried.stdout)) == "echo: hello"
        assert http.post("/v1/responses", json={"model": "demo", "input": "hello"}).status_code == 401
        assert running.end() == 0
    assert [line for line in running.logged if "uvicorn" in str(line)] == []


def test_a_first_start_for_another_model_does_not_say_that_it_serves_the_demo_agent(tmp_path: Path) -> None:
    with command(tmp_path, OSTLER_GATEWAY__DEFAULT_MODEL="gemini") as running:
        assert "demo" not in running.said[0]
        assert running.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_c04_a_restart_of_either_kind_keeps_session_and_history(tmp_path: Path, number: int) -> None:
    with command(tmp_path) as running, running.http() as http:
        first = http.post("/v1/responses", json={"model": "demo", "input": "apple", "conversation": "x"})
        running.end(number)
    with command(tmp_path) as running, running.http() as http:
        assert http.get(f"/v1/responses/{first.json()['id']}").json() == first.json()
        second = http.post("/v1/responses", json={"model": "demo", "input": "!recall", "conversation": "x"})
        assert (second.headers[SESSION], text_of(second.json())) == (first.headers[SESSION], "apple")


def test_c19_an_idempotent_answer_outlives_a_restart(tmp_path: Path) -> None:
    body, headers = {"model": "demo", "input": "apple"}, {"idempotency-key": "k"}
    with command(tmp_path) as running, running.http() as http:
        first = http.post("/v1/responses", json=body, headers=headers)
        running.end(signal.SIGKILL)
    with command(tmp_path) as running, running.http() as http:
        assert http.post("/v1/responses", json=body, headers=headers).content == first.content


def test_e23_a_drain_refuses_new_work_and_stores_what_it_stops(tmp_path: Path) -> None:
    with command(tmp_path, OSTLER_GATEWAY__DRAIN="1") as running, running.http() as http:
        begun, seen = threading.Event(), []

        def stream() -> None:
            with http.stream("POST", "/v1/responses", content=SLOW) as answer:
                for line in answer.iter_lines():
                    seen.append(line)
                    if "output_text.delta" in line:
                        begun.set()

        reader = threading.Thread(target=stream)
        reader.start()
        assert begun.wait(300)
        agents = running.agents()
        running.process.send_signal(signal.SIGTERM)
        with running.http() as late:
            refusals = [late.post("/v1/responses", json={"model": "demo", "input": "hi"}) for _ in range(20)]
        refusal = refusals[-1]
        assert (refusal.status_code, "retry-after" in refusal.headers) == (503, True)
        assert running.process.wait(300) == 0
        reader.join(10)
        last = events_of("\n".join(seen))[-1]
        assert (last["type"], last["response"]["incomplete_details"]) == (
            "response.incomplete",
            {"reason": "max_output_tokens", "cause": "gateway_shutdown"},
        )
        assert not [agent for agent in agents if agent.is_running()]
    with command(tmp_path) as running, running.http() as http:
        assert http.get(f"/v1/responses/{last['response']['id']}").json()["status"] == "incomplete"
        assert "begun" in text_of(say(http, "!recall", conversation="slow"))


def test_h13_a_killed_gateway_leaves_no_response_in_progress(tmp_path: Path) -> None:
    with (
        command(tmp_path) as running,
        running.http() as http,
        http.stream("POST", "/v1/responses", content=SLOW) as answer,
    ):
        lines = answer.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        next(line for line in lines if "delta" in line)
        running.end(signal.SIGKILL)
    response_id = json.loads(first[6:])["response"]["id"]
    with command(tmp_path) as running, running.http() as http:
        body = http.get(f"/v1/responses/{response_id}").json()
        assert (body["status"], body["incomplete_details"]) == (
            "incomplete",
            {"reason": "max_output_tokens", "cause": "gateway_restarted"},
        )


def test_w45b_a_kill_in_the_midst_of_a_drain_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with (
        command(tmp_path, OSTLER_GATEWAY__DRAIN="60") as running,
        running.http() as http,
        http.stream("POST", "/v1/responses", content=SLOW) as answer,
    ):
        lines = answer.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        next(line for line in lines if "delta" in line)
        running.process.send_signal(signal.SIGTERM)
        with running.http() as late:
            refusals = [late.post("/v1/responses", json={"model": "demo", "input": "hi"}) for _ in range(20)]
        assert refusals[-1].status_code == 503
        assert running.end(signal.SIGKILL) == -signal.SIGKILL
    response_id = json.loads(first[6:])["response"]["id"]
    with command(tmp_path) as running, running.http() as http:
        body = http.get(f"/v1/responses/{response_id}").json()
        assert (body["status"], body["incomplete_details"]["cause"]) == ("incomplete", "gateway_restarted")
        assert text_of(say(http, "!recall", conversation="slow")).splitlines()[0] == "begun"


def test_h18_a_second_gateway_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with command(tmp_path) as running, running.http() as http:
        for port in ("0", running.base.rpartition(":")[2]):
            second = refused(tmp_path, "--port", port)
            assert second.returncode == 1
            assert str(running.process.pid) in second.stderr
            assert "Traceback" not in second.stderr
        assert http.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        (("--host", "0.0.0.0"), {}, "OSTLER_API_KEY"),
        (("--host", "0.0.0.0"), {"OSTLER_API_KEY": "short"}, "16 characters"),
        ((), {"OSTLER_TRANSPORT_POOL_ENABLED": "maybe"}, "OSTLER_TRANSPORT_POOL_ENABLED='maybe'"),
        ((), {"OSTLER_GATEWAY__RESPONSE_MAX": "5"}, "responses_max"),
        ((), {"OSTLER_GATEWAY__DRAIN": "-1"}, "gateway.drain"),
        ((), {"OSTLER_RESETS__MODE": "weekly"}, "resets.mode"),
        ((), {"OSTLER_RESETS__TIMEZONE": "Mars/Olympus"}, "resets.timezone"),
        ((), {"OSTLER_GATEWAY__DEFAULT_MODEL": "nope/x"}, "provider"),
        (
            ("--host", "192.0.2.1"),
            {"OSTLER_API_KEY": "a-key-of-16-chars"},
            "with --host or OSTLER_GATEWAY__HOST",
        ),
    ],
)
def test_g04_what_cannot_be_served_is_refused_with_one_line(
    tmp_path: Path, arguments: tuple[str, ...], environ: dict[str, str], said: str
) -> None:
    ended = refused(tmp_path, *arguments, **environ)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert ended.stdout == ""
    assert not (tmp_path / "data" / "ostler.db").exists()


@pytest.mark.parametrize(
    ("flag", "configured", "processes"),
    [
        (None, True, 1),
        (None, False, 2),
        ("1", False, 1),
        ("0", True, 2),
        ("on", False, 1),
        ("NO", True, 2),
        ("", False, 2),
    ],
)
def test_g01_g02_g03_the_flag_beats_the_configuration(
    tmp_path: Path, flag: str | None, configured: bool, processes: int
) -> None:
    (tmp_path / "ostler.toml").write_text(f"[pool]\nenabled = {str(configured).lower()}\n")
    record = tmp_path / "record"
    environ = {"OSTLER_PROVIDERS__DEMO__ARGS": json.dumps(["--record", str(record)])}
    environ |= {} if flag is None else {"OSTLER_TRANSPORT_POOL_ENABLED": flag}
    with command(tmp_path, **environ) as running, running.http() as http:
        for name in "ab":
            say(http, f"hello {name}", conversation=name)
            assert text_of(say(http, "!recall", conversation=name)) == f"hello {name}"
        assert running.end() == 0
        breakdown = running.events("cold_start_breakdown")
    assert [line["transport_from_pool"] for line in breakdown] == [processes == 1] * 4
    assert [line["transport"] for line in breakdown] == ["pool" if processes == 1 else "agent"] * 4
    assert sum(json.loads(line)["event"] == "start" for line in record.read_text().splitlines()) == processes


def test_g06_g08_g11_every_turn_that_reaches_an_agent_leaves_one_breakdown(tmp_path: Path) -> None:
    with command(tmp_path) as running, running.http() as http:
        say(http, "hello")
        say(http, "!sleep 0.3\n!call nothing {}")
        http.post("/v1/chat/completions", json={"model": "demo", "messages": [{"role": "user", "content": "hi"}]})
        http.post("/v1/responses", json={"model": "demo", "input": "!die 3"})
        assert running.end() == 0
        lines = running.events("cold_start_breakdown")
    assert len(lines) == 4
    names = ("spawn", "bridge", "session_new", "first_tool", "generation")
    assert all(line[name] >= 0 for line in lines for name in names)
    assert [line["first_tool"] >= 300 for line in lines] == [False, True, False, False]
    assert len({line["turn_id"] for line in lines}) == 4
    assert lines[1]["spawn"] <= 5


def test_e20_nothing_is_started_before_the_first_turn(tmp_path: Path) -> None:
    with command(tmp_path) as running, running.http() as http:
        assert http.get("/readyz").status_code == 200
        assert running.agents() == []


def test_w46_readyz_is_not_green_while_every_start_fails(tmp_path: Path) -> None:
    (tmp_path / "ostler.toml").write_text('[providers.demo]\ncommand = ["/bin/false"]\n')
    with command(tmp_path) as running, running.http() as http:
        failed = http.post("/v1/responses", json={"model": "demo", "input": "hi"})
        assert failed.status_code == 503
        assert http.get("/readyz").status_code == 503
        assert http.get("/healthz").status_code == 200
        assert look(tmp_path / "data" / "ostler.db", "select count(*) from messages where active") == [(0,)]


def test_w11_no_secret_is_in_a_log_an_answer_a_metric_or_an_argv(tmp_path: Path) -> None:
    key, watcher, login = "a-secret-key-of-ours", "a-word-for-prometheus", "a-login-of-the-agent"
    given = {
        "OSTLER_API_KEY": key,
        "OSTLER_METRICS__TOKEN": watcher,
        "OSTLER_PROVIDERS__DEMO__ENV": json.dumps({"DEMO_API_KEY": login}),
        "OSTLER_PROVIDERS__DEMO__ARGS": json.dumps(["--record", str(tmp_path / "record.jsonl")]),
        "OSTLER_TOOLS__OWN": '["*"]',
        "OSTLER_LOG__LEVEL": "debug",
    }
    with command(tmp_path, **given) as running, running.http() as http:
        bearer = {"authorization": f"Bearer {key}"}

        def ask(model: str, text: str) -> str:
            return http.post("/v1/responses", json={"model": model, "input": text}, headers=bearer).text

        answers = [http.get("/v1/models", headers=headers).text for headers in ({}, bearer)]
        answers += [ask("demo", "!call session_info {}")]
        (agent,) = running.agents()
        assert login in agent.environ().values(), "it has its login, and has it by its environment"
        family = [agent, *agent.children(recursive=True)]
        argvs = [" ".join(one.cmdline()) for one in family]
        # The token of a session's tools is given to its relay by its agent, and shown to nobody else.
        tokens = {
            pair["value"]
            for line in map(json.loads, (tmp_path / "record.jsonl").read_text().splitlines())
            if line["event"] == "in" and line["frame"].get("method") == "session/new"
            for server in line["frame"]["params"]["mcpServers"]
            for pair in server["env"]
            if pair["name"] == "OSTLER_ACP_SESSION_BINDING"
        }
        assert tokens
        answers += [ask("demo", "!die 3"), ask("acp", "no command")]
        answers += [http.get("/metrics", headers={"authorization": f"Bearer {watcher}"}).text]
        assert "ostler_pool_claims_total" in answers[-1]
        assert running.end() == 0
        told = json.dumps([answers, argvs, running.logged])
        assert [secret for secret in (key, watcher, login, *tokens) if secret in told] == []
    shown = subprocess.run(
        [sys.executable, "-m", "ostler.gateway", "config", "show"],
        env=environment(tmp_path, {"OSTLER_API_KEY": key}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert key not in shown.stdout
    assert json.loads(shown.stdout)["auth"]["api_key"] == "(secret)"


def test_c26_what_is_kept_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    with command(tmp_path) as running, running.http() as http:
        say(http, "hello")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").glob("ostler.db*")}
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
        running.end()


def test_it_serves_a_unix_socket_and_tells_its_service_manager(tmp_path: Path) -> None:
    told = tmp_path / "notify"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(str(told))
        manager.settimeout(300)
        line = [
            sys.executable,
            "-m",
            "ostler.gateway",
            "serve",
            "--uds",
            str(tmp_path / "s"),
            "--data-dir",
            str(tmp_path / "d"),
        ]
        given = environment(tmp_path, {"NOTIFY_SOCKET": str(told)})
        process = subprocess.Popen(line, cwd=tmp_path, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert manager.recv(100) == b"READY=1"
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
            with httpx.Client(
                transport=httpx.HTTPTransport(uds=str(tmp_path / "s"), verify=NO_AUTHORITIES),
                base_url="http://localhost",
            ) as http:
                assert text_of(say(http, "hello")) == "echo: hello"
            process.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            assert process.wait(300) == 0
        finally:
            process.kill()
            process.wait()


def test_a_socket_that_is_handed_in_is_served(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        code = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3);"
            "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1');"
            "from ostler.gateway.__main__ import main; sys.exit(main(['serve', '--data-dir', sys.argv[2]]))"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(listener.fileno()), str(tmp_path / "data")],
            pass_fds=[listener.fileno()],
            env=environment(tmp_path, {}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = listener.getsockname()[1]
            answering(Command(process, f"http://127.0.0.1:{port}"))  # type: ignore[arg-type] # its text mode is not used
            process.terminate()
            assert process.wait(300) == 0
        finally:
            process.kill()
            process.wait()
    assert (tmp_path / "data" / "ostler.db").exists()


def send(http: httpx.Client, text: str) -> httpx.Response:
    """A message to a chat face."""
    return http.post("/v1/sessions/k/messages", json={"text": text})


def test_h03_h16_rh3_while_nothing_can_be_stored_reading_works_and_turns_say_so(tmp_path: Path) -> None:
    with command(tmp_path) as running, running.http() as http:
        assert send(http, "apple").status_code == 200
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        for _ in range(3):
            refused_turn = send(http, "lost")
            assert refused_turn.status_code == 503
            assert refused_turn.json()["error"]["code"] == "storage_error"
        assert http.get("/v1/sessions/k").json()["message_count"] == 2
        assert len(http.get("/v1/sessions/k/messages").json()["data"]) == 2
        assert len(http.get("/v1/sessions", params={"q": "apple"}).json()["data"]) == 2
        assert "/new" in send(http, "/help").json()["text"]
        assert http.get("/healthz").status_code == 200
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert send(http, "!recall").json()["text"] == "apple"
        running.end()
