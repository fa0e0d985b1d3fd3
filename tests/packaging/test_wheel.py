"""What a user gets: the sdist, the wheel made from it, in an empty environment with the declared dependencies only."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import files, version
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from packaging.requirements import Requirement

from tests.support.documents import blocks
from tests.support.rooms import ROOMS
from tools.agents.pins import InstallFailed, cache_folder, install
from tools.clients.pins import PYRIGHT

ROOT = Path(__file__).resolve().parents[2]
IMPORT_ALL = """
import importlib, pkgutil, ostler
names = [module.name for module in pkgutil.walk_packages(ostler.__path__, "ostler.")]
for name in names:
    importlib.import_module(name)
print(*sorted(names))
"""


def output_of(*argv: str | Path, cwd: Path) -> str:
    """Run a command apart from this process's environment; what it printed, or its complaint as the failure."""
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed files only: what lies about in the working tree must not help."""
    tree = tmp_path_factory.mktemp("tree")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in listed:
        source = ROOT / name
        if name and source.is_file() and not name.startswith("typings/"):
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    return tree


@pytest.fixture(scope="module")
def dist(tree: Path) -> Path:
    """The sdist, and the wheel built from it, as `python -m build` does."""
    output_of(sys.executable, "-m", "build", "--no-isolation", "--outdir", tree / "dist", tree, cwd=tree)
    return tree / "dist"


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


def pinned_here(lock: Path) -> list[str]:
    """The names in a lock that are meant for this platform."""
    lines = [line.rstrip(" \\") for line in lock.read_text().splitlines() if line and not line.startswith(("#", " "))]
    wanted = [Requirement(line) for line in lines]
    return [one.name for one in wanted if one.marker is None or one.marker.evaluate()]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel and links to the pinned dependencies of all its extras, nothing else."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    for name in pinned_here(ROOT / "requirements/all.txt"):
        installed = files(name)
        assert installed is not None
        # File by file: `opentelemetry` is a namespace that several distributions share.
        for part in {Path(path) for path in installed if not path.parts[0].startswith("..")}:
            (site / part).parent.mkdir(parents=True, exist_ok=True)
            (site / part).symlink_to(Path(str(installed[0].locate().parents[len(installed[0].parts) - 1])) / part)
    install = ["-m", "pip", "--python", home / "bin/python", "--disable-pip-version-check", "--no-cache-dir"]
    output_of(sys.executable, *install, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=home)
    return home


def modules_on_disk() -> set[str]:
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    parts = [path.relative_to(ROOT).with_suffix("").parts for path in paths]
    return {".".join(("ostler", *(part[:-1] if part[-1] == "__init__" else part))) for part in parts}


def test_every_module_is_imported_from_the_wheel(environment: Path) -> None:
    printed = output_of(environment / "bin/python", "-c", IMPORT_ALL, cwd=environment)
    assert set(printed.split()) == modules_on_disk()


def test_the_wheel_holds_the_rooms_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"ostler", f"ostler-{version('ostler')}.dist-info"}
    assert {name.split("/")[1] for name in names if name.startswith("ostler/")} == set(ROOMS)
    assert {f"ostler/{room}/py.typed" for room in ROOMS} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_pages_find_their_parts_in_the_wheel(environment: Path) -> None:
    page = "HtmlPage().page('x', '', script='status').html"
    code = f"from ostler.gateway.ops.console.html_page import HtmlPage; print(len({page}))"
    assert int(output_of(environment / "bin/python", "-c", code, cwd=environment)) > 10_000


def test_the_sdist_is_enough_to_build_from_and_holds_no_tests(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        tops = {Path(name).parts[1] for name in sdist.getnames() if len(Path(name).parts) > 1}
    assert {"pyproject.toml", "README.md", "LICENSE", *ROOMS} <= tops
    assert not tops & {"tests", "bench", "typings", ".venv"}


def test_the_console_script_runs(environment: Path) -> None:
    asked = subprocess.run([environment / "bin/ostler"], capture_output=True, text=True, cwd=environment, check=False)
    assert (asked.returncode, asked.stderr.splitlines()[0].split()[:2]) == (2, ["usage:", "ostler"])


def test_the_console_script_tells_its_version(environment: Path) -> None:
    assert output_of(environment / "bin/ostler", "--version", cwd=environment) == f"ostler {version('ostler')}\n"


def test_the_installed_wheel_serves_a_turn(environment: Path, tmp_path: Path) -> None:
    line = [environment / "bin/ostler", "serve", "--port", "0", "--data-dir", tmp_path / "data"]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environ) as gateway:
        assert gateway.stdout is not None
        try:
            found = re.search(r"http://[^\s;]+", gateway.stdout.readline())
            assert found is not None
            body = b'{"model": "demo", "input": "hello"}'
            asked = Request(found[0] + "/v1/responses", body, {"content-type": "application/json"})
            with urlopen(asked, timeout=300) as answer:
                assert b"echo: hello" in answer.read()
        finally:
            gateway.terminate()
        assert gateway.wait(300) == 0


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """What an embedder copies: the examples, and the programs of the documents, in a folder of their own."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for example in (ROOT / "examples").glob("*.py"):
        shutil.copy(example, folder)
    for name in ("embedding", "long-lived-leases"):
        for number, block in enumerate(each for each in blocks(ROOT / f"docs/{name}.md") if each.language == "python"):
            (folder / f"{name.replace('-', '_')}_{number}.py").write_text(block.text)
    assert len(list(folder.glob("*.py"))) >= 7
    return folder


def test_n51_mypy_finds_nothing_in_an_embedders_programs(environment: Path, programs: Path, tmp_path: Path) -> None:
    options = ["--strict", "--python-executable", environment / "bin/python", "--cache-dir", tmp_path / "cache"]
    output_of(sys.executable, "-m", "mypy", "--config-file", os.devnull, *options, ".", cwd=programs)


def test_n51_pyright_finds_nothing_in_an_embedders_programs(environment: Path, programs: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on PATH")
    try:
        home = install(PYRIGHT, cache_folder(), print)
    except InstallFailed as failure:
        pytest.skip(f"npm could not install {PYRIGHT.provider} {PYRIGHT.version}: {failure}")
    (programs / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "include": ["."]}')
    line = [node, home / "node_modules/pyright/index.js", "--pythonpath", environment / "bin/python"]
    output_of(*line, cwd=programs)
