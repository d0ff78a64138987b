"""`myxtts train`: trains a model on a corpus into a run folder."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.cli.console import LiveRun, say
from myxtts.cli.options import add_config_options, configuration
from myxtts.config.config import MODEL_SIZES, OPTIMIZATION_LEVELS, XTTSConfig
from myxtts.config.metrics import MEASURES
from myxtts.errors import CheckpointError, ConfigError
from myxtts.wording import plural

if TYPE_CHECKING:
    from myxtts.data.opening import Corpus
    from myxtts.runs.checkpoints import Checkpoint
    from myxtts.training.interruption import Interruption
    from myxtts.training.watching.judging import Measurer

DEMO_CORPUS = Path("demo") / "corpus"
RUNS = Path("runs")
_AUTO = "auto"

# Flags whose name differs from the setting that they set.
_SETTING_OF_FLAG = {
    "model_size": "size",
    "model_start_delay": "model_start_delay_seconds",
    "data_gpu_memory": "data_gpu_memory_mb",
    "model_gpu_memory": "model_gpu_memory_mb",
}
_FLAGS_OF_THE_RUN = {
    *("command", "run", "traceback"),
    *("config", "set", "run_dir", "resume", "dry_run", "json"),
    *("init_from", "init_partially"),
}


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "train",
        help="train a model on a corpus",
        description="Trains a model on a corpus. Every flag that is not given keeps the value of "
        "--config, or its default.",
        argument_default=argparse.SUPPRESS,
    )
    _add_run_flags(parser.add_argument_group("run"))
    _add_setting_flags(parser)
    return parser


def _add_run_flags(group: Any) -> None:
    add_config_options(group)
    group.add_argument(
        "--run-dir", type=Path, default=None, metavar="DIR", help="default: a new folder in runs/"
    )
    group.add_argument(
        "--resume",
        type=Path,
        nargs="?",
        const=True,
        default=None,
        metavar="DIR",
        help="go on with the run in DIR or in --run-dir; auto: with the newest, if there is one",
    )
    group.add_argument(
        "--init-from",
        type=Path,
        default=None,
        metavar="RUN",
        help="start with another run's averaged weights, which must fit; its model and audio "
        "settings hold where none are given",
    )
    group.add_argument(
        "--init-partially",
        action="store_true",
        default=False,
        help="with --init-from: take what fits and start the rest from scratch",
    )
    group.add_argument(
        "--dry-run", action="store_true", default=False, help="show the plan and train nothing"
    )
    group.add_argument(
        "--json", action="store_true", default=False, help="the plan of --dry-run as JSON"
    )


def _add_setting_flags(parser: argparse.ArgumentParser) -> None:
    """One flag per setting that the contract names; each is left out unless it is given."""
    data = parser.add_argument_group("data and shapes")
    data.add_argument("--train-data", metavar="DIR", help="corpus; without it the demo corpus")
    data.add_argument("--val-data", metavar="DIR", help="validation corpus")
    data.add_argument("--batch-size", type=int, metavar="N")
    data.add_argument(
        "--enable-static-shapes",
        "--pad-to-fixed-length",
        dest="pad_to_fixed_length",
        action="store_true",
        help="one shape for every batch",
    )
    data.add_argument("--max-text-length", type=int, metavar="N", help="in tokens")
    data.add_argument("--max-mel-frames", type=int, metavar="N")
    data.add_argument("--buffer-size", type=int, metavar="N", help="batches kept ready")

    model = parser.add_argument_group("model and optimisation")
    model.add_argument("--model-size", choices=MODEL_SIZES)
    model.add_argument("--optimization-level", choices=OPTIMIZATION_LEVELS)
    model.add_argument(
        "--freeze",
        metavar="NAMES",
        help='parts to keep as they are: "voice_encoder, decoder.block_*"',
    )
    model.add_argument("--gradient-accumulation-steps", type=int, metavar="N")
    model.add_argument("--xla", action=argparse.BooleanOptionalAction, help="compile with XLA")

    length = parser.add_argument_group("length and saving")
    length.add_argument("--max-steps", type=int, metavar="N")
    length.add_argument("--epochs", type=int, metavar="N")
    length.add_argument("--save-every", type=int, metavar="N", help="in steps")
    length.add_argument("--evaluate-every", type=int, metavar="N", help="in steps")
    length.add_argument("--seed", type=int, metavar="N")

    devices = parser.add_argument_group("devices")
    devices.add_argument("--multi-gpu", action="store_true", help="mirror over all visible GPUs")
    devices.add_argument(
        "--strict-devices", action="store_true", help="stop instead of falling back"
    )
    devices.add_argument("--visible-gpus", metavar="IDS", help="such as 0,1")
    devices.add_argument("--data-gpu", type=int, metavar="ID", help="computes features")
    devices.add_argument("--model-gpu", metavar="IDS", help="trains")
    devices.add_argument("--model-start-delay", type=float, metavar="SECONDS")
    devices.add_argument("--enable-memory-isolation", action="store_true")
    devices.add_argument("--data-gpu-memory", type=int, metavar="MB")
    devices.add_argument("--model-gpu-memory", type=int, metavar="MB")
    devices.add_argument(
        "--virtual-devices", type=int, metavar="N", help="logical CPUs that stand in for GPUs"
    )


def run(options: argparse.Namespace) -> int:
    from myxtts.training.interruption import Interruption

    with Interruption() as interruption:
        return _train(options, interruption)


def _train(options: argparse.Namespace, interruption: Interruption) -> int:
    from myxtts.runs.resuming import changes_since
    from myxtts.runs.run_dir import RunDir, find_checkpoint

    resumed = _run_to_resume(options)
    saved = find_checkpoint(resumed) if resumed else None
    origin = None if saved else _origin(options)
    config = _configuration(options, saved, origin)
    is_chief = _is_chief(options)
    if is_chief:
        _refuse_to_mix_runs(options, resumed)
    _require_corpora(config)
    plan_file = saved.plan_file if saved else None
    source = saved or origin
    vocabulary = source.tokenizer() if source else None
    if options.json:
        return _print_plan(config, options.dry_run, plan_file)
    if str(options.resume) == _AUTO:
        found = f"going on with {resumed}" if resumed else "found no saved run, starting anew"
        say(f"--resume auto: {found}")
    say(_configuration_block(config))
    for change in changes_since(saved, config) if saved else ():
        say(f"Differs from the run: {change}")
    if config.data.train_data is None:
        config = _with_demo_corpus(config)
    from myxtts.devices.loading import load_tensorflow
    from myxtts.training.watching.accounting import TimeAccount

    account = TimeAccount()
    with contextlib.ExitStack() as stack:
        live = stack.enter_context(LiveRun())
        live.on_phase("loading TensorFlow")
        compilation_log = load_tensorflow(_xla_cache(config))
        if compilation_log is not None:
            stack.callback(compilation_log.stop)
        from myxtts.training.launch import (
            describe_mode,
            open_corpus_for,
            set_up_devices,
            start_trainer,
        )

        devices = set_up_devices(config)
        corpus = open_corpus_for(devices.strategy, config, live.on_prepare, plan_file, vocabulary)
        say(describe_mode(config, corpus, devices))
        _describe(corpus, config, saved)
        if options.dry_run:
            return 0
        run_dir = resumed or _make_run_folder(options.run_dir)
        say(f"Run folder: {run_dir}")
        if is_chief:
            stack.enter_context(RunDir(run_dir).lock())
        trainer = start_trainer(
            config,
            corpus,
            run_dir,
            devices,
            observer=live,
            account=account,
            compilation_log=compilation_log,
            resume=saved,
            init_from=origin,
            init_partially=options.init_partially,
            measurer=stack.enter_context(_measurer(config, corpus, run_dir)) if is_chief else None,
            interruption=interruption,
        )
        report = trainer.fit()
    if is_chief and interruption.requested and report["steps"] < trainer.total_steps:
        say(f"Stopped at step {report['steps']}, saved in {run_dir}; go on with --resume {run_dir}")
    elif is_chief:
        _describe_report(report, run_dir, corpus)
    return 0


@contextlib.contextmanager
def _measurer(config: XTTSConfig, corpus: Corpus, run_dir: Path) -> Iterator[Measurer | None]:
    """What measures checkpoints beside the run, where that is wished for."""
    training = config.training
    if training.measure_every is None:
        yield None
        return
    from myxtts.evaluation.background import BackgroundEvaluation
    from myxtts.evaluation.sentences import held_out_sentences
    from myxtts.evaluation.toolbox import open_toolbox

    languages = corpus.own_words.languages
    sentences = held_out_sentences(config, languages, training.measured_sentences)
    if training.best_metric in MEASURES:
        toolbox = open_toolbox(only=[training.best_metric])
        problems = [left_out.reason for left_out in toolbox.left_out]
        for measure in toolbox.measures:
            if not any(measure.tool.understands(item.language) for item in sentences):
                problems.append(f"{measure.tool.name} does not know {', '.join(languages)}")
        if problems:
            raise ConfigError(
                f"training.best_metric: {training.best_metric} cannot be measured here: "
                f"{problems[0]}"
            )
    with contextlib.closing(BackgroundEvaluation(run_dir, sentences)) as measurer:
        yield measurer


def _is_chief(options: argparse.Namespace) -> bool:
    """Whether this process writes the run; of several machines only one does."""
    from myxtts.devices.cluster import find_cluster

    cluster = find_cluster()
    if cluster is None:
        return True
    if options.run_dir is None and options.resume is None:
        raise ConfigError(
            f"--run-dir: needed for training on {cluster.workers} machines; name a folder that "
            "all of them see"
        )
    return cluster.index == 0


def _xla_cache(config: XTTSConfig) -> Path | None:
    """Where XLA keeps compiled programs for the next launch; none if it is surely not used."""
    from myxtts.devices.loading import gpu_driver_is_there

    wanted = config.training.xla
    if wanted is False or (wanted is None and not gpu_driver_is_there()):
        return None
    if config.training.xla_cache_dir is not None:
        return Path(config.training.xla_cache_dir)
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "myxtts" / "xla"


def _print_plan(config: XTTSConfig, dry_run: bool, plan_file: Path | None) -> int:
    if not dry_run or config.data.train_data is None:
        raise ConfigError("--json: goes with --dry-run and --train-data DIR")
    from myxtts.devices.loading import load_tensorflow

    load_tensorflow()
    from myxtts.training.launch import open_corpus_for, set_up_devices

    strategy = set_up_devices(config).strategy
    corpus = open_corpus_for(strategy, config, lambda what, done, total: None, plan_file)
    print(json.dumps(_plan(corpus, config), ensure_ascii=False, indent=1))
    return 0


def _plan(corpus: Corpus, config: XTTSConfig) -> dict[str, Any]:
    part = corpus.train
    # What dynamic batching pads is known only batch by batch.
    frames, work = part.plan.valid_frame_ratio, part.plan.valid_work_ratio
    return {
        "configuration": config.as_dict(),
        "corpus": part.cache.description,
        "clips": len(part.cache),
        "validation_clips": len(corpus.validation.cache),
        "speakers": len(part.cache.speakers),
        "languages": corpus.own_words.languages,
        "rejected": part.rejected,
        "shapes": [list(shape.padded) for shape in part.plan.shapes],
        "clips_of_shapes": [
            len(part.plan.clips_of(index)) for index in range(len(part.plan.shapes))
        ],
        "valid_frame_ratio": None if part.plan.dynamic else frames,
        "valid_work_ratio": None if part.plan.dynamic else work,
        "batches_per_epoch": part.schedule.batches_per_epoch,
        "steps": part.schedule.planned_steps(config.training),
    }


def _configuration(
    options: argparse.Namespace, saved: Checkpoint | None, origin: Checkpoint | None
) -> XTTSConfig:
    """Every flag that is not about the run itself is a setting.

    A resumed run has the settings that it was saved with, where flags do not change them. One
    that starts with another's weights has its model, where nothing else is given.
    """
    from myxtts.config.changes import settings_of_the_model

    settings = {
        _SETTING_OF_FLAG.get(flag, flag): value
        for flag, value in vars(options).items()
        if flag not in _FLAGS_OF_THE_RUN
    }
    if "epochs" in settings and "max_steps" not in settings:
        # Otherwise the number of steps in the file would win over the flag.
        settings["max_steps"] = None
    return configuration(
        options,
        settings,
        base=saved.config_file if saved else None,
        below=settings_of_the_model(origin.config()) if origin else None,
    )


def _origin(options: argparse.Namespace) -> Checkpoint | None:
    """What --init-from names."""
    from myxtts.runs.run_dir import find_checkpoint

    if options.init_from is None:
        if options.init_partially:
            raise CheckpointError("--init-partially: goes with --init-from RUN")
        return None
    return find_checkpoint(options.init_from, to_speak=True)


def _run_to_resume(options: argparse.Namespace) -> Path | None:
    from myxtts.runs.run_dir import RunDir

    if options.resume is None:
        return None
    if str(options.resume) == _AUTO:
        return _newest_run(options.run_dir)
    folder: Path | None = options.run_dir if options.resume is True else options.resume
    if folder is None:
        raise CheckpointError("--resume: say which run, with --resume DIR or --run-dir DIR")
    if options.run_dir not in (None, folder):
        raise CheckpointError(f"--resume {folder}: contradicts --run-dir {options.run_dir}")
    if options.init_from is not None:
        raise CheckpointError("--resume: goes on with a run, so --init-from has no place beside it")
    if not RunDir(folder).checkpoints.is_dir():
        raise CheckpointError(f"{folder}: holds no run to resume; expected checkpoints/ in it")
    return folder


def _newest_run(run_dir: Path | None) -> Path | None:
    """--run-dir, or the newest in runs/, where it has saved something."""
    from myxtts.runs.run_dir import RunDir

    if run_dir is None:
        newest = RunDir.newest_in(RUNS)
        return newest.path if newest else None
    return run_dir if RunDir(run_dir).checkpoint_folders() else None


def _refuse_to_mix_runs(options: argparse.Namespace, resumed: Path | None) -> None:
    from myxtts.runs.run_dir import RunDir

    folder: Path | None = options.run_dir
    if resumed is not None or folder is None:
        return
    if RunDir(folder).holds_a_run and str(options.resume) != _AUTO:
        raise CheckpointError(
            f"{folder}: holds a run already; go on with it by --resume, or give another --run-dir"
        )
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file, expected a folder for the run")


def _require_corpora(config: XTTSConfig) -> None:
    """A wrong folder is said at once, not after TensorFlow was loaded."""
    from myxtts.data.corpus.dataset import metadata_files

    if config.data.train_data is not None:
        metadata_files(Path(config.data.train_data))
    if config.data.val_data is not None:
        metadata_files(Path(config.data.val_data), "eval")


def _make_run_folder(given: Path | None) -> Path:
    """The folder that was given, or the next free number in runs/."""
    from myxtts.runs.run_dir import RunDir

    if given is None:
        return RunDir.make_next_in(RUNS).path
    RunDir(given).make()
    return given


def _with_demo_corpus(config: XTTSConfig) -> XTTSConfig:
    from myxtts.cli.demo_data import make

    if DEMO_CORPUS.is_dir():
        say(f"No --train-data given: using the demo corpus in {DEMO_CORPUS}")
    else:
        say(f"No --train-data given: making and using the demo corpus in {DEMO_CORPUS}")
        make(DEMO_CORPUS)
    settings = config.as_dict()
    settings["data"]["train_data"] = str(DEMO_CORPUS)
    return XTTSConfig(**settings)


def _configuration_block(config: XTTSConfig) -> str:
    data, training = config.data, config.training
    length = "from the corpus"
    if training.max_steps is not None:
        length = f"{training.max_steps} {plural(training.max_steps, 'step')}"
    elif training.epochs is not None:
        length = f"{training.epochs} {plural(training.epochs, 'epoch')}"
    frames = "from the data" if data.max_mel_frames is None else str(data.max_mel_frames)
    lines = {
        "Training data": data.train_data or "demo corpus",
        "Validation data": data.val_data or "split off the training data, or its own eval file",
        "Model size": config.model.size,
        "Optimization level": training.optimization_level,
        "Length": length,
        "Batch size": f"{data.batch_size} (accumulated over "
        f"{training.gradient_accumulation_steps})",
        "Batching": data.batching_mode,
        "Static shapes (pad_to_fixed_length)": str(data.batching_mode == "fixed"),
        "max_text_length": str(data.max_text_length),
        "max_mel_frames": frames,
        "Learning rate": f"{training.learning_rate:g}",
        "Seed": str(training.seed),
    }
    return "\n".join(
        ["Final Training Configuration", *(f"  {name}: {value}" for name, value in lines.items())]
    )


def _describe(corpus: Corpus, config: XTTSConfig, saved: Checkpoint | None) -> None:
    """The plan: what was read, what was left out, the shapes, the length."""
    from myxtts.data.planning.shapes import describe_plan

    part = corpus.train
    audio = config.audio
    hours = part.cache.frame_counts.sum() * audio.hop_samples / audio.sample_rate_hz / 3_600
    clips, speakers = len(part.cache), len(part.cache.speakers)
    languages, validation_clips = corpus.own_words.languages, len(corpus.validation.cache)
    say(
        f"Corpus: {part.cache.description}; {clips} {plural(clips, 'clip')}, {hours:.2f} hours, "
        f"{speakers} {plural(speakers, 'speaker')}, "
        f"{plural(len(languages), 'language')} {', '.join(languages)}; "
        f"{validation_clips} {plural(validation_clips, 'clip')} for validation"
    )
    for reason, count in part.rejected.items():
        say(f"Left out: {count} {plural(count, 'clip')}, {reason}")
    for line in part.cache.rejections[:5]:
        say(f"  {line}")
    for count in corpus.validation.plan.rejected.values():
        clips_left_out = f"{count} {plural(count, 'clip')}"
        say(f"Left out of validation: {clips_left_out} longer than every training shape")
    say(describe_plan(part.plan, part.cache.frame_counts))
    length = part.schedule.planned_length(config.training)
    say(f"Length: {length}{_time_left(length.steps, saved)}")


def _time_left(steps: int, saved: Checkpoint | None) -> str:
    """Of a run that is resumed: how long its steps take is known only there."""
    if saved is None or not saved.info.seconds:
        return ""
    from myxtts.training.watching.accounting import stepping_seconds

    done = saved.info.step
    seconds = stepping_seconds(saved.info.seconds) / max(1, done)
    minutes = max(0, steps - done) * seconds / 60
    return f"; from step {done:,} on about {minutes:,.0f} minutes at {seconds:.2f} s a step"


def _describe_report(report: dict[str, Any], run_dir: Path, corpus: Corpus) -> None:
    seconds = report["seconds"]
    wall = seconds["wall"]
    shares = ", ".join(
        f"{name.replace('_', ' ')} {value / wall:.1%}"
        for name, value in sorted(seconds.items(), key=lambda item: -item[1])
        if name != "wall" and value / wall >= 0.0005
    )
    say()
    steps = f"{report['steps']} {plural(report['steps'], 'step')}"
    say(f"Trained {steps} in {wall / 60:.1f} minutes: {shares}")
    say(
        f"Useful utilisation {report['useful_utilisation']:.1%}: the device computed "
        f"{seconds['compute'] / wall:.1%} of the time, {report['valid_work_ratio']:.1%} of it on "
        f"real tokens and frames. While stepping it was {report['steady_utilisation']:.1%}: "
        "start-up, evaluations and checkpoints left out"
    )
    for sentence in report["advice"]:
        say(sentence)
    if report["best"] is not None:
        best = report["best"]
        say(f"Best by {best['metric']}: step {best['step']} ({best['value']:.3f}), {run_dir}/best")
    reference = corpus.validation.cache.audio_path(0)
    say(f"Checkpoints, samples and report: {run_dir}")
    say(
        f'Next: myxtts synthesize --checkpoint {run_dir} --text "Hello there." '
        f"--speaker-wav {reference} --language {corpus.own_words.languages[0]} --out hello.wav"
    )
