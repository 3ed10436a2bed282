"""YAML files that people write."""

from __future__ import annotations

from pathlib import Path

import pytest

from yolo_accum.config.yaml_file import read_yaml
from yolo_accum.errors import UserError


def test_plain_values_and_merged_mappings(tmp_path: Path) -> None:
    path = tmp_path / "ü.yaml"
    path.write_text("base: &b {a: 1, c: 2}\nmore: {<<: *b, a: 3}\nlist: [1.5, yes, text]\n", encoding="utf-8")
    assert read_yaml(path) == {"base": {"a": 1, "c": 2}, "more": {"a": 3, "c": 2}, "list": [1.5, True, "text"]}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"batch: 4\nnbs: 8\nbatch: 2\n", 'batch stands twice in "<unicode string>", line 3'),
        (b"a: {b: 1, b: 1}\n", "b stands twice"),
        (b"a: [1", "not a YAML file"),
        (b"\xff\xfe\x00", "not a YAML file"),
        (b"!!python/object/apply:os.system ['true']", "not a YAML file of plain values"),
    ],
)
def test_faults_are_told_with_the_file(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "options.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as raised:
        read_yaml(path)
    assert str(raised.value).startswith(f"{path}: ") and sentence in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--arms x: No such file or directory; name one"):
        read_yaml(tmp_path / "nowhere.yaml", "--arms x", "; name one")
