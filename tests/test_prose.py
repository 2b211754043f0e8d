"""The prose linter reads sentences, all of them, and nothing else."""

from pathlib import Path

import pytest
from prose import findings, prose_of

PAGE = """# A very good heading

A sentence with `very much code` and [a link](very/far.md).

```
very old output
```

| very | wide |
"""


def test_code_tables_headings_and_targets_are_no_prose_and_lines_stay() -> None:
    prose = prose_of(PAGE)
    assert "very" not in prose and "a link" in prose
    assert len(prose.splitlines()) >= PAGE.splitlines().index("```")


@pytest.mark.parametrize("bad", ["It is very late.", "It did it it.", "They wait for ever."])
def test_a_bad_sentence_is_found_in_its_line(tmp_path: Path, bad: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{PAGE}\n{bad}\n", encoding="utf-8")
    [found] = findings(page)
    assert int(found.partition(":")[0]) == len(PAGE.splitlines()) + 2
