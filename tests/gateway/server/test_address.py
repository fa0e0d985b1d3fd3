"""The hint where a gateway listens."""

import logging
import socket
from pathlib import Path

import pytest

from ostler.gateway.server.address import is_ours, leave_address, left_address, owners_of


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


def test_a_listener_is_ours_where_the_kernel_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        assert is_ours(f"http://127.0.0.1:{port}")
    assert not is_ours(f"http://127.0.0.1:{port}")
    assert is_ours("unix:/run/ostler.sock")


def test_a_table_of_the_kernel_is_read_by_port_and_state() -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = "   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  {uid}  0 1\n"
    rows = [(8787, "0A", 7), (8787, "01", 8), (80, "0A", 9), (8787, "0A", 0)]
    table = head + "".join(row.format(port=port, state=state, uid=uid) for port, state, uid in rows)
    assert owners_of(table, 8787) == [7, 0]
