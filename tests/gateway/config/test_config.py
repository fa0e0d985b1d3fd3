"""From file and environment to settings."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ostler.gateway.config.errors import ConfigError, UnknownSettingKey, UnknownVariable
from ostler.gateway.config.load import load
from ostler.gateway.config.settings import Settings, shown
from ostler.gateway.ops.settings_check import check
from ostler.pool.flag import BadFlag


def loaded(folder: Path, text: str = "", **environ: str) -> Settings:
    file = folder / "ostler.toml"
    file.write_text(text)
    return load({"HOME": str(folder), **environ}, config=str(file)).settings


def test_n43_config_says_what_is_in_force_as_one_line_of_json(tmp_path: Path) -> None:
    place = {"file": "no ostler.toml: defaults and environment", "data_dir": str(tmp_path / "data")}
    checked = json.loads(said(tmp_path, "config check --json"))
    assert checked.items() >= {"good": True, **place}.items()
    first, refused = checked["permissions"]
    assert first.startswith("permissions: workspace (agents edit files in their directory")
    assert refused.startswith("refused, because they cannot be held to it: acp, hermes-acp")
    line = said(tmp_path, "config show --json", OSTLER_GATEWAY__PORT="2")
    assert json.loads(line).items() >= place.items()
    assert json.loads(line)["gateway"]["port"] == 2
    assert json.loads(line) == json.loads(said(tmp_path, "config show", OSTLER_GATEWAY__PORT="2"))


def test_keys_are_listed_as_lines_of_json_without_their_digests(tmp_path: Path) -> None:
    assert said(tmp_path, "key list --json", lines=0) == ""
    digest = "0" * 64
    file = tmp_path / "ostler.toml"
    table = "[[auth.keys]]\nname = '{}'\nsha256 = '{}'\n"
    file.write_text(table.format("ann", digest) + "models = ['demo/*']\n" + table.format("bob", digest[1:] + "1"))
    ann, bob = map(json.loads, said(tmp_path, f"key list --json --config {file}", lines=2).splitlines())
    assert (ann["name"], ann["models"], ann["admin"]) == ("ann", ["demo/*"], False)
    assert (bob["name"], bob["models"]) == ("bob", [])
    assert "sha256" not in ann


def said(folder: Path, words: str, lines: int = 1, **environ: str) -> str:
    """What a command prints."""
    given = {"HOME": str(folder), "PATH": os.environ["PATH"], "OSTLER_DATA_DIR": str(folder / "data"), **environ}
    line = [sys.executable, "-m", "ostler.gateway", *words.split()]
    text = subprocess.run(line, cwd=folder, env=given, capture_output=True, text=True, timeout=60, check=True).stdout
    assert text.count("\n") == lines or not words.endswith("--json")
    return text


@pytest.mark.parametrize("command", ["config check", "serve --port 0"])
def test_traces_without_their_library_are_a_mistake_of_the_configuration(tmp_path: Path, command: str) -> None:
    hidden = "import sys; sys.modules['opentelemetry'] = None; from ostler.gateway.__main__ import main"
    environ = {**os.environ, "HOME": str(tmp_path), "OSTLER_METRICS__OTLP_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}
    words = [*command.split(), "--data-dir", str(tmp_path / "data")]
    ended = subprocess.run(
        [sys.executable, "-c", f"{hidden}; sys.exit(main({words!r}))"],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "metrics.otlp_endpoint" in ended.stderr
    assert "pip install 'opentelemetry-exporter-otlp-proto-http>=1.30' 'opentelemetry-sdk>=1.30'" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not (tmp_path / "data").exists()


def test_a_time_zone_of_the_environment_is_checked_like_one_of_the_file(tmp_path: Path) -> None:
    settings = loaded(tmp_path)
    check(settings, tmp_path, environ={"TZ": "Europe/Berlin"})
    with pytest.raises(ConfigError, match="Mars/Olympus"):
        check(settings, tmp_path, environ={"TZ": "Mars/Olympus"})


def test_the_environment_beats_the_file_and_the_command_line_both(tmp_path: Path) -> None:
    assert loaded(tmp_path, "[gateway]\nport = 1\n").gateway.port == 1
    assert loaded(tmp_path, "[gateway]\nport = 1\n", OSTLER_GATEWAY__PORT="2").gateway.port == 2
    given = load({"HOME": str(tmp_path), "OSTLER_GATEWAY__PORT": "2"}, overrides=[("gateway.port", 3)])
    assert given.settings.gateway.port == 3


@pytest.mark.parametrize("text", ["anna", '["anna"]', '{"name": "anna"}', "3"])
def test_the_advice_for_keys_in_a_variable_shows_how_tables_are_written(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as failed:
        loaded(tmp_path, OSTLER_AUTH__KEYS=text)
    assert failed.value.place == "OSTLER_AUTH__KEYS"
    assert '[{"name": "...", "sha256": "..."}]' in str(failed.value)


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("OSTLER_POOL__ROOTS", '["..."]'),
        ("OSTLER_POOL__MODEL_PERMISSIONS", '{"...": "..."}'),
        ("OSTLER_PROVIDERS__DEMO__COMMAND", '["..."]'),
    ],
)
def test_the_advice_for_other_lists_and_tables_has_their_shape(tmp_path: Path, name: str, example: str) -> None:
    for text in ("[", "3"):
        with pytest.raises(ConfigError) as failed:
            loaded(tmp_path, **{name: text})
        assert failed.value.place == name
        assert example in str(failed.value)


def test_a_variable_reaches_any_depth_and_any_type(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        OSTLER_PROVIDERS__DEMO__ARGS='["--no-load"]',
        OSTLER_MODELS__FAST="demo/small",
        OSTLER_POOL__ENABLED="false",
        OSTLER_GATEWAY__DRAIN="1.5",
        OSTLER_GATEWAY__UDS="",
    )
    servers = loaded(tmp_path, OSTLER_TOOLS__MCP__X__COMMAND='["a"]', OSTLER_TOOLS__MCP__X__TIMEOUT="5").tools.mcp
    assert servers == {"x": {"command": ["a"], "timeout": 5}}
    assert settings.providers["demo"].args == ["--no-load"]
    assert settings.models == {"fast": "demo/small"}
    assert (settings.pool.enabled, settings.gateway.drain, settings.gateway.uds) == (False, 1.5, None)


@pytest.mark.parametrize(
    ("text", "environ", "nearest"),
    [
        ("[gateway]\nprot = 1\n", {}, "port"),
        ("[gatway]\nport = 1\n", {}, "gateway"),
        ("[providers.demo]\ncomand = []\n", {}, "command"),
        ("", {"OSTLER_GATEWAY__RESPONSE_MAX": "1"}, "responses_max"),
        ("", {"OSTLER_POOOL__ENABLED": "1"}, "pool"),
        ("[[auth.keys]]\nname='x'\nsha='y'\n", {}, "sha256"),
    ],
)
def test_an_unknown_key_is_named_with_its_nearest(
    tmp_path: Path, text: str, environ: dict[str, str], nearest: str
) -> None:
    with pytest.raises(UnknownSettingKey) as caught:
        loaded(tmp_path, text, **environ)
    assert caught.value.nearest == nearest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gateway]\nport = 'x'\n", "gateway.port"),
        ("[gateway]\nport = 70000\n", "gateway.port"),
        ("[gateway]\nresponses_max = 0\n", "gateway.responses_max"),
        ("[gateway]\non_disconnect = 'shrug'\n", "gateway.on_disconnect"),
        ("[log]\nlevel = 'loud'\n", "log.level"),
        ("[log.levels]\n'ostler.pool' = 'loud'\n", "log.levels"),
        ("[log]\nredact = ['(']\n", "log.redact"),
        ("[log]\nredact = ['[[a]']\n", "log.redact"),
        ("[[auth.keys]]\nname='x'\nsha256='plain'\n", "sha256"),
        ("gateway = 5\n", "gateway"),
        ("[gateway\n", "TOML"),
        ("[gateway]\ndefault_model = 'nope/x'\n", "gateway.default_model"),
        ("[models]\nfast = 'nope/x'\n", "models.fast"),
        ("[gateway]\ndefault_model = 'acp'\n", r"providers\.acp\.command.*'acp' leads to it"),
        ("[models]\nmine = 'acp/x'\n", r"providers\.acp\.command.*'mine' leads to it"),
        ("[[pool.warm]]\nmodel = 'acp/x'\n", r"providers\.acp\.command.*'acp/x' leads to it"),
        ("[providers.nope]\n", "providers.nope"),
        ("[providers.demo]\nhome = 'relative'\n", "home"),
        ("[providers.demo]\napproval = 'maybe'\n", "providers.demo.approval"),
        ("[providers.demo]\ntool_channel = 'pigeon'\n", "providers.demo.tool_channel"),
        ("[pool]\npermissions = 'maybe'\n", "pool.permissions"),
        ("[pool.model_permissions]\n'demo/*' = 'maybe'\n", "model_permissions.demo"),
        (f"[[auth.keys]]\nname='x'\nsha256='{'a' * 64}'\npermissions='maybe'\n", "maybe"),
        ("[tools.mcp.files]\n", "tools.mcp.files"),
        ("[tools.mcp.files]\ncomand = ['x']\n", "comand"),
        ("[tools.mcp.files]\nurl = 'ftp://x'\n", "url"),
        ("[tools]\nmcp = {files = 5}\n", "tools.mcp"),
        ("[auth]\nkey_file = '/nonexistent/keys.toml'\n", "ostler key new"),
        ("[[pool.warm]]\nmodel = 'nope/x'\n", "pool.warm"),
        ("[gateway]\nhost = '0.0.0.0'\n", "OSTLER_API_KEY"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(loaded(tmp_path, text), tmp_path)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("OSTLER_APIKEY", "did you mean OSTLER_API_KEY?"),
        ("OSTLER_DATADIR", "did you mean OSTLER_DATA_DIR?"),
        ("OSTLER_GATEWAY_PORT", "did you mean OSTLER_GATEWAY__PORT?"),
        ("OSTLER_FOO", "OSTLER_<SECTION>__<KEY>"),
    ],
)
def test_g04_a_variable_that_nothing_reads_stops_the_start(tmp_path: Path, name: str, meant: str) -> None:
    with pytest.raises(UnknownVariable, match=f"^{name}: ") as found:
        loaded(tmp_path, **{name: "1"})
    assert meant in str(found.value)


def test_variables_of_other_parts_and_of_kubernetes_are_no_mistakes(tmp_path: Path) -> None:
    """A service that is called ostler, or ostler-web, puts these into every container beside it."""
    loaded(
        tmp_path,
        OSTLER_API_KEY="a-key-of-more-than-16-characters",
        OSTLER_CONFIG="x",
        OSTLER_DATA_DIR=str(tmp_path),
        OSTLER_TRANSPORT_POOL_ENABLED="1",
        OSTLER_DEMO_STATE="/x",
        OSTLER_BRIDGE_SOCKET="/x",
        OSTLER_ACP_SESSION_BINDING="x",
        OSTLER_SPAWN_ID="x",
        OSTLER_SERVICE_HOST="10.0.0.1",
        OSTLER_WEB_SERVICE_PORT_HTTP="8787",
        OSTLER_PORT="tcp://10.0.0.1:8787",
        OSTLER_PORT_8787_TCP_ADDR="10.0.0.1",
        OSTLER_EMPTY="",
    )
    with pytest.raises(UnknownVariable):
        loaded(tmp_path, OSTLER_PORT="8787")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OSTLER_GATEWAY__PORT", "abc"),
        ("OSTLER_GATEWAY__PORT", "99999"),
        ("OSTLER_GATEWAY__ON_DISCONNECT", "x"),
        ("OSTLER_POOL__WARM", '[{"seats": 1}]'),
    ],
)
def test_g04_a_wrong_value_is_said_of_the_variable_that_has_it(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: "):
        loaded(tmp_path, "[gateway]\ndrain = 5\n", **{name: value})
    with pytest.raises(ConfigError, match=r"^the command line: .*gateway\.port"):
        load({"HOME": str(tmp_path)}, overrides=[("gateway.port", 99_999)])


@pytest.mark.parametrize(("value", "enabled"), [("1", True), ("oN", True), ("No", False), ("0", False), ("", False)])
def test_g02_g03_the_flag_beats_the_file(tmp_path: Path, value: str, enabled: bool) -> None:
    settings = loaded(tmp_path, "[pool]\nenabled = false\n", OSTLER_TRANSPORT_POOL_ENABLED=value)
    assert settings.pool.enabled is enabled


def test_g04_a_flag_that_is_neither_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadFlag, match="OSTLER_TRANSPORT_POOL_ENABLED='maybe'"):
        loaded(tmp_path, OSTLER_TRANSPORT_POOL_ENABLED="maybe")


def test_w11_what_is_shown_holds_no_secret(tmp_path: Path) -> None:
    servers = "[tools.mcp.x]\nurl = 'http://x'\nheaders = {A = 'hidden'}\nenv = {B = 'hidden'}\n"
    key = f"[[auth.keys]]\nname = 'ann'\nsha256 = '{'a' * 64}'\n"
    text = f"[providers.demo]\nenv = {{TOKEN = 'hidden'}}\n{servers}{key}"
    settings = loaded(tmp_path, text, OSTLER_API_KEY="hidden-key-of-16-chars")
    whole = str(shown(settings))
    assert "hidden" not in whole
    assert "a" * 64 not in whole
    assert "ann" in whole


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:8888/v1#a", "http://127.0.0.1:8888/v1#a"),
        ("https://ann:hid@den@example.org/mcp", "https://(secret)@example.org/mcp"),
        ("HTTPS://example.org/mcp?key=hidden&b=c", "HTTPS://example.org/mcp?(secret)"),
        ("http://hidden@example.org/@a?b@c?d", "http://(secret)@example.org/@a?(secret)"),
        ("--url=https://ann:hidden@example.org/?key=hidden", "--url=https://(secret)@example.org/?(secret)"),
        ("DSN=postgres://ann:hidden@example.org/db", "DSN=postgres://(secret)@example.org/db"),
        ("a@b?c://d", "a@b?c://d"),
    ],
)
def test_w11_what_a_url_tells_its_server_only_is_not_shown(url: str, told: str) -> None:
    assert shown({"url": url, "words": [url]}) == {"url": told, "words": [told]}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["agent", "--api-key", "hidden", "-v"], ["agent", "--api-key", "(secret)", "-v"]),
        (["--TOKEN=hidden", "x"], ["--TOKEN=(secret)", "x"]),
        (["-password", "--acp"], ["-password", "--acp"]),
        (["--header", "Authorization: Bearer hidden"], ["--header", "Authorization: (secret)"]),
        (["-H", "X-Api-Key:hidden", "-v"], ["-H", "X-Api-Key:(secret)", "-v"]),
        (["--header=Authorization: Bearer hidden"], ["--header=Authorization: (secret)"]),
        (["env", "MY_TOKEN=hidden\nhidden", "agent"], ["env", "MY_TOKEN=(secret)", "agent"]),
        (["bwrap", "--setenv", "GEMINI_API_KEY", "hidden"], ["bwrap", "--setenv", "GEMINI_API_KEY", "(secret)"]),
        (["env", "API_TOKEN=hiddenkey==", "x"], ["env", "API_TOKEN=(secret)", "x"]),
        (["show", "key", "x:y"], ["show", "key", "x:y"]),
        (["--keyed", "x", "tokens", "y"], ["--keyed", "x", "tokens", "y"]),
    ],
)
def test_w11_what_an_option_of_a_command_keeps_secret_is_not_shown(words: list[str], told: list[str]) -> None:
    assert shown({"args": words}) == {"args": told}


def test_a_provider_goes_by_its_short_name_too_but_has_one_section(tmp_path: Path) -> None:
    text = 'gateway.default_model = "gemini/flash"\n[providers.gemini]\nargs = ["-d"]\n'
    _, wanted = check(loaded(tmp_path, text), tmp_path)
    assert wanted.providers["gemini-acp"].args == ("-d",)
    with pytest.raises(ConfigError, match=r"providers\.gemini.*another section for gemini-acp"):
        check(loaded(tmp_path, text + '[providers.gemini-acp]\nargs = ["-e"]\n'), tmp_path)


@pytest.mark.parametrize(("said", "cache"), [("", "compiled"), ("[pool]\ncompile_cache = false\n", None)])
def test_agents_keep_their_compiled_code_in_the_data_folder(tmp_path: Path, said: str, cache: str | None) -> None:
    _, pool = check(loaded(tmp_path, said), tmp_path)
    assert {each.cache for each in pool.providers.values()} == {cache and str(tmp_path / cache)}


def test_agents_are_started_under_a_prefix_and_with_limits(tmp_path: Path) -> None:
    text = '[providers.demo]\nprefix = ["nice", "-n", "5"]\nrlimits = {nofile = 512, core = 0}\n'
    _, pool = check(loaded(tmp_path, text), tmp_path)
    assert pool.providers["demo"].prefix == ("nice", "-n", "5")
    assert pool.providers["demo"].rlimits == {resource.RLIMIT_NOFILE: (512, 512), resource.RLIMIT_CORE: (0, 0)}


@pytest.mark.parametrize(("limits", "said"), [("nofiles = 512", "known: .*nofile"), ("nofile = -1", "rlimits")])
def test_a_limit_that_is_none_is_named(tmp_path: Path, limits: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(loaded(tmp_path, f"[providers.demo]\nrlimits = {{{limits}}}\n"), tmp_path)


def test_the_pool_gives_up_later_than_the_work_that_it_guards(tmp_path: Path) -> None:
    """Whose error knows what the agent said; and a longer deadline of one provider is not cut off."""
    settings = loaded(tmp_path, "[providers.demo]\nstart_deadline = 200\nopen_deadline = 300\n")
    _, pool = check(settings, tmp_path)
    slowest = pool.providers["demo"].deadlines
    assert pool.limits.start_timeout > slowest.start == 200
    assert pool.limits.open_timeout > slowest.session_open + slowest.tools


@pytest.mark.parametrize("name", ["OSTLER_TOOLS__OWN", "OSTLER_TOOLS__MCP__X__ENV"])
def test_g04_a_variable_nested_deeper_than_can_be_read_is_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(loaded(tmp_path, **{name: "[" * 100_000}), tmp_path)
    assert len(str(caught.value)) < 300
