import json
import shutil
from pathlib import Path

import pytest

from myxtts.cli.main import main

PROJECT = Path(__file__).parents[2]


def shown(capsys, *arguments, expect=0):
    assert main(["diagnose", *map(str, arguments)]) == expect
    return capsys.readouterr().out


def test_without_a_corpus_typical_lengths_are_used(capsys):
    text = shown(capsys)
    assert "clip lengths like LJSpeech's" in text
    assert "bucketed <-" in text
    assert "0 of them during training." in text


@pytest.mark.parametrize("gpu", [["--xla"], ["--model-gpu=0"]])
def test_variable_shapes_are_the_answer_no(capsys, gpu):
    text = shown(capsys, "--set=data.batching=dynamic", *gpu, expect=1)
    assert "Cause: with data.batching: dynamic every batch is as long as its longest clip" in text
    assert "Change: data.batching: bucketed" in text


def test_without_xla_variable_shapes_do_not_compile(capsys):
    text = shown(capsys, "--set=data.batching=dynamic", "--no-xla")
    assert "XLA compilations: 0" in text
    assert "with XLA each of the" in text


def test_json_compares_every_way_of_batching(capsys, demo_corpus):
    content = json.loads(shown(capsys, "--train-data", demo_corpus, "--xla", "--json"))
    assert content["corpus"].startswith(str(demo_corpus))
    assert content["would_compile_again"] is False
    modes = {mode["batching"]: mode for mode in content["modes"]}
    assert set(modes) == {"bucketed", "fixed", "dynamic"}
    assert modes["fixed"]["compilations"] == 1
    # Warm-up compiles one of them, which holds every clip.
    assert modes["dynamic"]["compilations_after_warmup"] == modes["dynamic"]["shapes"] - 1 > 1
    assert modes["dynamic"]["compile_seconds"] > modes["fixed"]["compile_seconds"]


def test_clips_over_the_limits_are_told(capsys, demo_corpus):
    """In the words of `train`, which would stop."""
    limits = ["--train-data", demo_corpus, "--max-text-length=40", "--max-mel-frames=240"]
    text = shown(capsys, *limits, "--no-xla", expect=1)
    assert "data.max_text_length" in text
    option = text.rpartition("To continue without these clips: ")[2].rstrip(".\n")
    assert main(["train", "--dry-run", *map(str, limits)]) == 2
    assert option in capsys.readouterr().err
    shown(capsys, *limits, "--no-xla", *option.split())
    assert main(["train", "--dry-run", *map(str, limits), *option.split()]) == 0


def test_it_takes_the_flags_of_train(capsys, trained_run, demo_corpus):
    flags = ["--model-size=small", "--batch-size=8", "--run-dir=x", "--dry-run", "--seed=3"]
    shown(capsys, *flags, "--enable-static-shapes", "--no-xla", "--max-steps=5")
    content = json.loads(
        shown(capsys, demo_corpus, "--resume", trained_run, "--json", "--batch-size=6")
    )
    assert content["clips"] == 18


def test_with_a_validation_corpus_every_clip_is_trained_on(capsys, demo_corpus, tmp_path):
    """Clips are counted as by `train`, which holds nothing out in that case."""
    (tmp_path / "wavs").symlink_to(demo_corpus / "wavs")
    shutil.copy(demo_corpus / "metadata_train.csv", tmp_path / "metadata.csv")

    def clips(*arguments):
        return json.loads(shown(capsys, "--train-data", tmp_path, "--json", *arguments))["clips"]

    assert clips("--set", f"data.val_data={demo_corpus}") == 18
    assert clips("--val-data", demo_corpus) == 18
    assert clips() < 18


@pytest.mark.parametrize(
    ("settings", "replicas"),
    [
        ([], 1),
        (["data.model_gpu=1,2,3"], 3),
        (["data.model_gpu=1,2,3", "data.data_gpu=0"], 3),
        (["training.multi_gpu=true", "training.virtual_devices=2"], 2),
        (["training.multi_gpu=true", "training.visible_gpus=0,2,5"], 3),
        (["training.virtual_devices=2"], 1),
    ],
)
def test_every_replica_compiles(capsys, monkeypatch, settings, replicas):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    flags = [f"--set={setting}" for setting in [*settings, "data.batch_size=24"]]
    content = json.loads(shown(capsys, "--xla", "--json", *flags))
    modes = {mode["batching"]: mode for mode in content["modes"]}
    assert (content["replicas"], modes["fixed"]["compilations"]) == (replicas, replicas)


def test_a_batch_that_replicas_cannot_share(capsys):
    flags = [f"--set={it}" for it in ("data.model_gpu=1,2,3", "data.batching=fixed")]
    assert main(["diagnose", *flags, "--set=data.batch_size=32"]) == 2
    assert "expected a multiple of 3, the number of replicas" in capsys.readouterr().err


def test_gpus_that_cannot_be_used_as_asked_are_told(capsys):
    text = shown(capsys, "--no-xla", "--set=data.model_gpu=0,1", "--set=data.data_gpu=1")
    assert "Devices: GPU 1 cannot be both data GPU and model GPU." in text
    assert "replicas: 2" in text


def test_stats_diagnose_and_train_recommend_the_same(capsys, demo_corpus):
    """18 clips, of which some are held out: fewer than a default batch."""
    corpus = ["--train-data", str(demo_corpus), "--set=data.validation_fraction=0.2"]
    arguments = [*corpus, "--batch-size=32"]
    [advice] = [line for line in shown(capsys, *arguments).splitlines() if "--batch-size" in line]
    assert main(["train", "--dry-run", *arguments]) == 0
    assert advice.removesuffix(".") in capsys.readouterr().out.splitlines()
    assert main(["stats", *corpus, "--set=data.batch_size=32", "--subset=train", "--json"]) == 0
    recommended = json.loads(capsys.readouterr().out)["recommended"]["data"]
    assert f"--batch-size {recommended['batch_size']} " in advice


def test_shapes_are_those_that_train_plans_here(capsys, demo_corpus):
    predicted = json.loads(shown(capsys, demo_corpus, "--json"))
    bucketed = next(mode for mode in predicted["modes"] if mode["batching"] == "bucketed")
    assert main(["train", str(demo_corpus), "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["shapes"]) == bucketed["shapes"]
    assert predicted["batch_size"] == plan["configuration"]["data"]["batch_size"]
    assert predicted["xla"] is False
