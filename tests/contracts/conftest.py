"""Which providers the contract runs for.

Rules:
- With `-p tools.agents.plugin` and `--agent NAME`: that real agent, marked `agents`. Without: the demo agent, by its
  own provider and by the generic one that knows nothing but its command.
- A check that asks for a `channel` runs once for each that the provider declares.
- A provider that `load()` finds and nobody can run is not silently left out: `test_coverage.py` fails.
"""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from ostler.pool.provider import Provider
from ostler.pool.providers import load
from ostler.process import ProcessSupervisor
from tests.contracts.built_in import BUILT_IN
from tests.support.provider_harness import ProviderHarness
from tests.support.tool_stage import stage_at
from tools.agents.recipes import RECIPES, Place, Recipe


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "provider" not in metafunc.fixturenames:
        return
    known = load()
    if "channel" in metafunc.fixturenames:
        _parametrize_channels(metafunc, known)
        return
    agent = metafunc.config.getoption("--agent", default=None)
    chosen = [
        pytest.param(known[name], id=name, marks=[pytest.mark.agents] if agent else [])
        for name in ([agent] if agent else BUILT_IN)
    ]
    metafunc.parametrize("provider", chosen)


def _parametrize_channels(metafunc: pytest.Metafunc, known: Mapping[str, Provider]) -> None:
    """Once for each way to tools that the provider declares."""
    agent = metafunc.config.getoption("--agent", default=None)
    marks = [pytest.mark.agents] if agent else []
    metafunc.parametrize(
        ("provider", "channel"),
        [
            pytest.param(known[name], channel, id=f"{name}-{channel.value}", marks=marks)
            for name in ([agent] if agent else BUILT_IN)
            for channel in sorted(known[name].tool_channels)
        ],
    )


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """One scratch HOME for the whole run, as a pool's processes share one."""
    given = request.config.getoption("--agent-home", default=None)
    return Path(given) if given else tmp_path_factory.mktemp("home")


@pytest.fixture
def recipe(provider: Provider, home: Path, request: pytest.FixtureRequest) -> Recipe:
    """How this provider is started."""
    if provider.name in BUILT_IN:
        return BUILT_IN[provider.name](home)
    install, llm = (request.config.getoption(f"--agent-{name}") for name in ("install", "llm"))
    return RECIPES[provider.name](Place(Path(install), home, llm))


@pytest.fixture
async def provider_harness(provider: Provider, recipe: Recipe, tmp_path: Path) -> AsyncIterator[ProviderHarness]:
    """The provider under test, and the end of everything that was started."""
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    supervisor = await ProcessSupervisor.open(runtime, "contract")
    try:
        async with stage_at(tmp_path) as stage:
            provider_harness = ProviderHarness(provider, recipe, supervisor, stage, tmp_path)
            yield provider_harness
            await provider_harness.clear()
    finally:
        await supervisor.aclose()
