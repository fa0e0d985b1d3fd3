"""A declaration names the version that it was measured with: the very one that the contract suite runs."""

import pytest

from ostler.pool.providers import load
from tools.agents.pins import PINS, Pin


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.provider)
def test_a_provider_was_measured_with_its_pinned_version(pin: Pin) -> None:
    assert load()[pin.provider].measured == pin.version
