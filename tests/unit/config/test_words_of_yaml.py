"""What a person is told about a value in a recipe: as it stands there, not as Python writes it."""

from __future__ import annotations

import pytest
import yaml

from yolo_accum.config.load import from_mapping
from yolo_accum.errors import UserError

TAKEN = "; YAML takes yes, no, on and off for true and false, unless they are quoted"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("norm: true", f"norm true: one of bn, syncbn, cmbn, wrn, gn, frozen is needed{TAKEN}"),
        ("norm: on", f"norm true: one of bn, syncbn, cmbn, wrn, gn, frozen is needed{TAKEN}"),
        ("norm: null", "norm null: one of bn, syncbn, cmbn, wrn, gn, frozen is needed"),
        ("log: off", f"log false: a list of names is needed{TAKEN}"),
        ("classes: yes", f"classes true: a list of names is needed{TAKEN}"),
        ("classes: [yes, 2]", f'classes [true, "2"]: a list of names is needed{TAKEN}'),
        ("epochs: [1]", "epochs [1]: a whole number is needed"),
        ("lr0: .nan", "lr0 nan: a number is needed"),
    ],
)
def test_a_value_is_shown_as_it_stands(line: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        from_mapping(yaml.safe_load(line), "mine.yaml")
    assert str(caught.value) == f"mine.yaml: {sentence}"


def test_numbers_are_still_names() -> None:
    assert from_mapping(yaml.safe_load("classes: [0, 2]")).data.classes == ("0", "2")
