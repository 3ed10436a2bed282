"""The command lines of the verbs."""

from __future__ import annotations

from pathlib import Path

import pytest

from yolo_accum.config.arguments import EMBEDDED_RECIPE, parse_predict, parse_train, parse_val
from yolo_accum.config.load import read_recipe
from yolo_accum.errors import UserError


def train(*words: str) -> dict[str, object]:
    """What was given on a command line that also names data, so that no recipe applies."""
    return dict(parse_train(["--data", "d.yaml", *words]).given)


def test_without_anything_the_embedded_recipe_is_applied() -> None:
    arguments = parse_train([])
    recipe = read_recipe(EMBEDDED_RECIPE)

    assert arguments.recipe == "embedded" and arguments.explicit == frozenset()
    assert arguments.config.optim.epochs == recipe["epochs"]
    assert arguments.config.data.imgsz == recipe["imgsz"]


def test_with_data_or_on_resuming_no_recipe_is_applied() -> None:
    with_data = parse_train(["--data", "d.yaml"])

    assert with_data.recipe is None and with_data.config.data.imgsz == 640
    assert parse_train(["--resume", "runs/train/exp"]).recipe is None


def test_the_command_line_goes_before_the_recipe_and_the_recipe_before_the_defaults(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("batch: 4\nepochs: 7\nlr0: 1e-3\n")

    arguments = parse_train(["--recipe", str(recipe), "--batch", "16", "--lr0", "null"])

    assert arguments.config.accumulation.batch == 16
    assert arguments.config.optim.epochs == 7
    assert arguments.config.optim.lr0 is None
    assert arguments.config.accumulation.nbs == 64
    assert arguments.explicit == {"batch", "lr0"}


def test_a_value_that_equals_the_default_is_still_explicit() -> None:
    assert parse_train(["--batch", "8"]).explicit == {"batch"}


def test_a_recipe_on_resuming_is_refused() -> None:
    with pytest.raises(UserError, match="--recipe and --resume exclude each other"):
        parse_train(["--recipe", "embedded", "--resume", "runs/train/exp"])


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["--close-mosaic", "3"], {"close_mosaic": 3}),
        (["--close_mosaic", "3"], {"close_mosaic": 3}),
        (["--close_mosaic=3"], {"close_mosaic": 3}),
        (["--nbs", "32", "--nbs", "16"], {"nbs": 16}),
        (["--nbs", "1e9"], {"nbs": 1_000_000_000}),
        (["--ramp"], {"ramp": True}),
        (["--no-ramp"], {"ramp": False}),
        (["--ramp", "false"], {"ramp": False}),
        (["--ramp=no", "--batch", "2"], {"ramp": False, "batch": 2}),
        (["--no-channels_last"], {"channels_last": False}),
        (["--freeze", "a", "b.c"], {"freeze": ("a", "b.c")}),
        (["--freeze", "a,b.c", "--batch", "2"], {"freeze": ("a", "b.c"), "batch": 2}),
        (["--device", "0"], {"device": "0"}),
        (["--name", "2024"], {"name": "2024"}),
        (["--lr0", "1e-3"], {"lr0": 0.001}),
    ],
)
def test_spellings(words: list[str], given: dict[str, object]) -> None:
    assert train(*words) == {"data": "d.yaml", **given}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--nbs", "2.5"], "--nbs 2.5: a whole number is needed"),
        (["--nbs", "abc"], "--nbs abc: a whole number is needed"),
        (["--nbs", "0"], "--nbs 0: a nominal batch size of at least 1 is needed"),
        (["--nbs", "-64"], "--nbs -64: a nominal batch size of at least 1 is needed"),
        (["--batch", "0"], "--batch 0: at least one image a micro-batch is needed"),
        (["--batch", "true"], "--batch true: a whole number or auto is needed"),
        (["--batch"], "--batch: a value is missing, a whole number or auto is needed"),
        (["--batch="], "--batch : a whole number or auto is needed"),
        (["--lr0", "nan"], "--lr0 nan: a number is needed"),
        (["--imgsz", "100"], "--imgsz 100: a multiple of 32 from 32 to 16384 is needed"),
        (["--imgsz", "16416"], "--imgsz 16416: a multiple of 32 from 32 to 16384 is needed"),
        (["--warmup-epochs", "9" * 400], f"{'9' * 80}: this number is too large"),
        (["--threads", "1025"], "--threads 1025: a number from 1 to 1,024 is needed"),
        (["--workers", "257"], "--workers 257: a number from 0 to 256 is needed"),
        (["--seed", "-1"], "--seed -1: a number from 0 to 9,223,372,036,854,775,807 is needed"),
        (["--seed", str(2**63)], f"--seed {2**63}: a number from 0 to 9,223,372,036,854,775,807 is needed"),
        (["--epochs", "1000001"], "--epochs 1000001: a number from 1 to 1,000,000 is needed"),
        (["--batch", "1000001"], "--batch 1000001: a number from 1 to 1,000,000 is needed"),
        (["--nbs", "1000000001"], "--nbs 1000000001: a number from 1 to 1,000,000,000 is needed"),
        *(
            (
                ["--name", name],
                f"--name {name!r}: the name of a folder is needed, without / or \\; --project says where",
            )
            for name in ("", " ", ".", "..", "a/b", "/tmp/a", "a\\b", "a\0b")
        ),
        (["--project", ""], "--project '': the path of a folder is needed"),
        (["--project", "a\0b"], "--project 'a\\x00b': the path of a folder is needed"),
        (["--tail", "stop"], "--tail stop: one of step, carry, drop is needed"),
        (["--ramp", "1"], "--ramp 1: true or false is needed"),
        (["--freeze"], "--freeze: a value is missing, a list of names is needed"),
        (["--batchsize", "8"], "--batchsize: there is no such option (did you mean --batch?)"),
        (["--epoch", "8"], "--epoch: there is no such option (did you mean --epochs?)"),
        (["--no-ram"], "--no-ram: there is no such option (did you mean --no-ramp?)"),
        (["-batch", "8"], "-batch: there is no such option (did you mean --batch?)"),
        (["coco.yaml"], "coco.yaml: not expected here; options are written --name value"),
    ],
)
def test_refusals(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as refusal:
        train(*words)

    assert str(refusal.value) == sentence


def test_val_and_predict_have_their_own_defaults_and_refuse_training_options() -> None:
    val = parse_val(["--weights", "a.pt", "--json"])
    predict = parse_predict(["--json", "a.jpg", "pictures", "--weights", "a.pt"])

    assert (val.run.project, val.eval.conf, val.json, val.sources) == ("runs/val", 0.01, True, ())
    assert (predict.run.project, predict.eval.conf, predict.json) == ("runs/predict", 0.25, True)
    assert predict.sources == ("a.jpg", "pictures")
    assert val.given == {"weights": "a.pt"}
    with pytest.raises(UserError, match="--epochs: there is no such option"):
        parse_val(["--epochs", "3"])


def test_predict_needs_a_picture() -> None:
    with pytest.raises(UserError, match="at least one picture"):
        parse_predict(["--weights", "a.pt"])


@pytest.mark.parametrize("parse", [parse_train, parse_val, parse_predict])
def test_help_fits_80_columns_and_shows_dashes(parse, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as ending:
        parse(["--help"])

    text = capsys.readouterr().out
    assert ending.value.code == 0
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "--max-det N" in text and "_" not in "".join(word for word in text.split() if word.startswith("--"))


def test_a_negative_number_is_a_value_however_it_is_written() -> None:
    for words in (["--lr0", "-1e-3"], ["--lr0=-1e-3"], ["--lr0", "-.001", "--no-plots"]):
        with pytest.raises(UserError, match=r"^--lr0 -0\.001: a positive number is needed"):
            parse_train(words)
