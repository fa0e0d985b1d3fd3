"""What README shows is run as it stands there."""

import re
from pathlib import Path

from ostler.gateway.config.check import check
from ostler.gateway.config.load import load

README = Path(__file__).resolve().parents[2] / "README.md"


async def test_the_embedding_example_answers(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, str(README), "exec"), names)
    answer = names["answer"]
    assert callable(answer)
    assert await answer("hello", str(tmp_path)) == "echo: hello"


def test_the_configuration_it_shows_is_a_good_one(tmp_path: Path) -> None:
    (block,) = re.findall(r"^    # ostler\.toml .*\n(?:    .*\n)+", README.read_text(), re.MULTILINE)
    file = tmp_path / "ostler.toml"
    file.write_text(block)
    loaded = load({}, config=str(file), data_dir=str(tmp_path))
    models, pool = check(loaded.settings, tmp_path)
    assert models.resolve(models.default) == ("gemini-acp", "gemini-2.5-flash")
    assert pool.warm
