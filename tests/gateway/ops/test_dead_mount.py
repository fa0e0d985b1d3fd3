"""A directory on a mount whose server is gone: whoever names it waits, and nobody else does."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.serve_command import command
from tools.faults.mount import DeadMount

KEY = "demo"


@pytest.fixture
def mount(tmp_path: Path) -> DeadMount:
    made = DeadMount(tmp_path)
    if not made.works:
        pytest.skip("there is no C compiler here, so no mount can be made dead")
    return made


def orders(http: httpx.Client, cwd: str) -> list[Callable[[], httpx.Response]]:
    """Whatever takes a directory from outside."""

    def verb(name: str, **more: Any) -> Callable[[], httpx.Response]:
        body = {"key": KEY, "cwd": cwd, **more}
        return lambda: http.post(f"/admin/pool/{name}", json=body)

    turn = {"model": "demo", "input": "hi", "metadata": {"cwd": cwd}}
    return [
        verb("warm", seats=1),
        verb("pause"),
        verb("resume"),
        verb("drain"),
        verb("reconnect"),
        lambda: http.get("/admin/pool/why", params={"key": KEY, "cwd": cwd}),
        lambda: http.get("/admin/pool/why", params={"key": f"{KEY} in {cwd}"}),
        lambda: http.post("/v1/responses", json=turn),
    ]


def test_n42_a_dead_mount_holds_up_only_those_who_name_it(tmp_path: Path, mount: DeadMount) -> None:
    (mount.path / "known").mkdir()
    (mount.path / "new").mkdir()
    with command(tmp_path, whole=True, **mount.environ) as running, running.http() as http:
        turn = {"model": "demo", "input": "hi", "metadata": {"cwd": str(mount.path / "known")}}
        assert http.post("/v1/responses", json=turn).status_code == 200
        mount.die()
        try:
            asked = [*orders(http, str(mount.path / "new")), *orders(http, str(mount.path / "none"))]
            with ThreadPoolExecutor(len(asked)) as clients:
                stuck: list[Future[httpx.Response]] = [clients.submit(order) for order in asked]
                # Whatever of them has come by then, the loop answers; frozen, it would not before the disk is back.
                for _ in range(5):
                    assert http.get("/healthz").status_code == 200
                    assert http.post("/v1/responses", json={"model": "demo", "input": "hi"}).status_code == 200
                # A key that the pool holds is ordered about though its disk is dead.
                known = {"key": KEY, "cwd": str(mount.path / "known")}
                assert http.post("/admin/pool/drain", json=known).status_code == 200
                mount.revive()
                statuses = [each.result().status_code for each in stuck]
        finally:
            mount.revive()
    assert set(statuses) <= {200, 400, 404}, statuses
