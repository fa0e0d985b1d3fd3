"""The hint where a gateway listens."""

import logging
from pathlib import Path

import pytest

from ostler.gateway.address import leave_address, left_address


def test_what_is_left_is_found_and_replaced(tmp_path: Path) -> None:
    assert left_address(tmp_path) is None
    for address in ("http://127.0.0.1:1", "http://127.0.0.1:2"):
        leave_address(tmp_path, address)
        assert left_address(tmp_path) == address
    assert [file.name for file in tmp_path.iterdir()] == ["address"]


def test_a_hint_that_cannot_be_left_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        leave_address(tmp_path / "gone", "http://127.0.0.1:1")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
