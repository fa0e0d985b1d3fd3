"""How each real agent runs offline: a scratch HOME with its files, and settings through which product code starts it.

Rules:
- Only what makes the agent talk to the fake model is said here. What makes it fit for a pool (no relaunch, trust, no
  update checks) is the provider's own business, and a recipe that helped would hide that it is missing.
- The agent is found by the product on the PATH that the recipe gives, like a user's install.
- The key is a word of no worth, but it is treated as a secret: the suite looks for it where it must not be.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ostler.pool.launch.settings import ProviderSettings

KEY = "sk-fake-0123456789abcdef"
MODEL = "fake-model"
QUIET = {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}


class Unavailable(Exception):
    """The agent cannot be run here; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent is, where it lives, and the model it talks to."""

    install: Path
    home: Path
    llm: str

    def write(self, name: str, content: str | Mapping[str, object]) -> None:
        """A file below HOME."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))


@dataclass(frozen=True, slots=True)
class Hands:
    """The agent's own tools for two deeds, as its model calls them: name and arguments."""

    write: Callable[[str], tuple[str, Mapping[str, object]]]
    """A file at this path."""
    command: Callable[[str], tuple[str, Mapping[str, object]]]
    """A shell command."""


def patch(path: str) -> str:
    """codex edits files by a command that it takes for a patch."""
    return f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\nEOF"


def runs(tool: str, argument: str = "command", **more: object) -> Callable[[str], tuple[str, Mapping[str, object]]]:
    return lambda command: (tool, {argument: command, **more})


def writes(tool: str, argument: str) -> Callable[[str], tuple[str, Mapping[str, object]]]:
    return lambda path: (tool, {argument: path, "content": "x"})


CODEX_HANDS = Hands(lambda path: ("exec_command", {"cmd": patch(path)}), runs("exec_command", "cmd"))
HANDS: Mapping[str, Hands] = {
    "gemini-acp": Hands(writes("write_file", "file_path"), runs("run_shell_command", description="d")),
    "qwen-acp": Hands(
        writes("write_file", "file_path"), runs("run_shell_command", is_background=False, description="d")
    ),
    "claude-acp": Hands(writes("Write", "file_path"), runs("Bash", description="d")),
    "opencode-acp": Hands(writes("write", "filePath"), runs("bash", description="d")),
    "hermes-acp": Hands(writes("write_file", "path"), runs("terminal")),
    "codex-acp": CODEX_HANDS,
    "codex-app-server": CODEX_HANDS,
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a test needs to start one provider."""

    settings: ProviderSettings
    model: str
    asks: str
    """The order that makes the agent ask for permission when it may not act by itself; a tool name follows."""


def gemini(place: Place) -> Recipe:
    place.write(
        ".gemini/settings.json", {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}
    )
    return recipe(place, model="gemini-2.5-flash", env={"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": place.llm})


def codex(place: Place) -> Recipe:
    place.write(
        ".codex/config.toml",
        f"""model = "{MODEL}"
model_provider = "fake"
[analytics]
enabled = false
[model_providers.fake]
name = "Fake"
base_url = "{place.llm}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
""",
    )
    return recipe(place, env={"CODEX_HOME": str(place.home / ".codex"), "OPENAI_API_KEY": KEY})


def claude(place: Place) -> Recipe:
    env = {"ANTHROPIC_BASE_URL": place.llm, "ANTHROPIC_API_KEY": KEY, "CLAUDE_CONFIG_DIR": str(place.home / ".claude")}
    return recipe(place, model="claude-sonnet-4-5", env={**env, "IS_SANDBOX": "1"})


def qwen(place: Place) -> Recipe:
    security = {"auth": {"selectedType": "openai"}}
    place.write(".qwen/settings.json", {"security": security, "general": {"enableAutoUpdate": False}, **QUIET})
    return recipe(place, env={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{place.llm}/v1"})


def opencode(place: Place) -> Recipe:
    options = {"baseURL": f"{place.llm}/v1", "apiKey": KEY}
    models = {MODEL: {"name": "Fake", "limit": {"context": 100_000, "output": 4_000}}}
    fake = {"npm": "@ai-sdk/openai-compatible", "name": "Fake", "options": options, "models": models}
    place.write(
        ".config/opencode/opencode.json",
        {
            "share": "disabled",
            "small_model": f"fake/{MODEL}",
            "enabled_providers": ["fake"],
            "provider": {"fake": fake},
        },
    )
    return recipe(place, model=f"fake/{MODEL}", env={"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"})


def hermes(place: Place) -> Recipe:
    place.write(
        ".hermes/config.yaml",
        f"model:\n  default: {MODEL}\n  provider: custom\n  base_url: {place.llm}/v1\n  api_key: {KEY}\n"
        "  context_length: 128000\n",
    )
    env = {"HERMES_HOME": str(place.home / ".hermes"), "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{place.llm}/v1"}
    found = recipe(place, env=env)
    # A venv's scripts name the folder it was made in, and installs are renamed: the module is started instead.
    python = str(place.install / "venv/bin/python")
    return replace(found, settings=replace(found.settings, command=(python, "-m", "hermes_cli.main")))


RECIPES: Mapping[str, Callable[[Place], Recipe]] = {
    "gemini-acp": gemini,
    "codex-app-server": codex,
    "codex-acp": codex,
    "claude-acp": claude,
    "qwen-acp": qwen,
    "opencode-acp": opencode,
    "hermes-acp": hermes,
}


def recipe(place: Place, *, env: Mapping[str, str], model: str = MODEL) -> Recipe:
    """Settings with a scratch HOME, and a PATH that holds the install, node, and what a shell needs."""
    node = shutil.which("node")
    if node is None and (place.install / "node_modules").is_dir():
        raise Unavailable("there is no node on PATH")
    folders = [
        str(place.install / "node_modules/.bin"),
        *([str(Path(node).parent)] if node else []),
        "/usr/bin",
        "/bin",
    ]
    whole = {"PATH": ":".join(dict.fromkeys(folders)), "TERM": "dumb", **xdg(place.home), **env}
    return Recipe(ProviderSettings(home=str(place.home), env=whole), model, asks="!call")


def xdg(home: Path) -> dict[str, str]:
    """The folders that would otherwise be taken from whoever runs the tests."""
    parts = {"CONFIG": ".config", "DATA": ".local/share", "STATE": ".local/state", "CACHE": ".cache"}
    return {f"XDG_{name}_HOME": str(home / part) for name, part in parts.items()}
