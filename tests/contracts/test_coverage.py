"""Every provider that is found is held to the contract by somebody."""

from ostler.pool.providers import load
from tests.contracts.built_in import BUILT_IN
from tools.agents.pins import PINS
from tools.agents.recipes import RECIPES


def test_every_provider_has_a_recipe() -> None:
    assert set(load()) == set(RECIPES) | set(BUILT_IN)


def test_every_recipe_of_a_real_agent_has_a_pin() -> None:
    assert {pin.provider for pin in PINS} == set(RECIPES)
