"""What a newcomer sees of `make`."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_long_step_of_the_first_run_is_announced() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    (step,) = (number for number, line in enumerate(lines) if "--require-hashes -r requirements/dev.txt" in line)
    assert lines[step - 1].startswith("\t@echo ")
    assert "about a minute" in lines[step - 1]
    assert "600 MB" in lines[step - 1]
