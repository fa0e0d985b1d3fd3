"""What is said where nobody listens."""

import pytest

from ostler.gateway.cli.terminal.http import all_refused

REFUSED = "[Errno 111] Connect call failed ('127.0.0.1', 1)"


@pytest.mark.parametrize(
    ("told", "so"),
    [
        (REFUSED, True),
        (f"Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), {REFUSED}", True),
        (f"Multiple exceptions: [Errno 101] Network is unreachable, {REFUSED}", False),
        ("[Errno -2] Name or service not known", False),
        ("Port out of range 0-65535", False),
    ],
)
def test_only_where_every_address_refuses_nobody_listens(told: str, so: bool) -> None:
    assert all_refused(told) is so
