"""The environment flag decides, and a bad value is refused by name."""

import pytest

from ostler.pool.flag import VARIABLE, BadFlag, pool_enabled


@pytest.mark.parametrize(
    ("value", "enabled"),
    [
        ("1", True),
        ("TRUE", True),
        ("Yes", True),
        ("on", True),
        ("0", False),
        ("False", False),
        ("NO", False),
        ("off", False),
    ],
)
@pytest.mark.parametrize("configured", [True, False])
def test_g02_g03_the_variable_beats_the_configuration(value: str, enabled: bool, configured: bool) -> None:
    assert pool_enabled({VARIABLE: value}, configured=configured) is enabled


@pytest.mark.parametrize("environ", [{}, {VARIABLE: ""}, {VARIABLE: "  "}])
def test_g04_empty_counts_as_not_set(environ: dict[str, str]) -> None:
    assert pool_enabled(environ) is True
    assert pool_enabled(environ, configured=False) is False


@pytest.mark.parametrize("value", ["maybe", "2", "-1", "enabled", "y"])
def test_g04_another_value_names_variable_and_value(value: str) -> None:
    with pytest.raises(BadFlag, match=VARIABLE) as caught:
        pool_enabled({VARIABLE: value})
    assert value in str(caught.value)
