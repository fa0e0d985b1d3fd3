"""What README shows is run as it stands there."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


async def test_the_embedding_example_answers(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, str(README), "exec"), names)
    answer = names["answer"]
    assert callable(answer)
    assert await answer("hello", str(tmp_path)) == "echo: hello"
