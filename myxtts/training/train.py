"""A whole run in one call, from top to bottom: `myxtts.train(config, run_dir)`.

`plan_run` is the first half: configuration, devices, corpus and plan. `train` does the rest: model,
optimizer, restore, warm-up and loop, in an `XTTSTrainer`.

TensorFlow reads its flags when it is imported, and they depend on the configuration. So nothing
here imports it before `plan_run` does.
"""

from __future__ import annotations

import contextlib
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import config_to_start_with, save_config, settings_against
from myxtts.devices.placement import find_cluster
from myxtts.devices.startup import load_tensorflow, program_cache
from myxtts.errors import CheckpointError, ConfigError, DeviceError, plural_count
from myxtts.files import write_file
from myxtts.runs.checkpoint import Checkpoint
from myxtts.runs.run_dir import (
    RunDir,
    changes_since,
    find_checkpoint,
    is_included,
    model_name,
    require_length,
    run_or_base,
    run_to_start_from,
)
from myxtts.training.best import BackgroundEvaluation, with_best_metric, with_best_metric_of
from myxtts.training.interruption import Interruption
from myxtts.training.report import Observer, RunReport, describe_plan
from myxtts.training.time_account import TimeAccount

if TYPE_CHECKING:
    from myxtts.data.corpus import Corpus
    from myxtts.data.pipeline import Feed
    from myxtts.data.shapes import BatchSize
    from myxtts.devices.strategy import Devices
    from myxtts.training.task import Task
    from myxtts.training.trainer import XTTSTrainer

_log = logging.getLogger(__name__)

RUNS = Path("runs")
DEMO_CORPUS = Path("demo") / "corpus"


class RunPlan(NamedTuple):
    """The plan of a run: everything that is known before the model is built."""

    config: XTTSConfig
    start: Checkpoint | None
    """The run whose weights it starts with; None for random weights or a resumed run."""
    devices: Devices
    corpus: Corpus
    task: Task
    feed: Feed
    """The input pipeline, not started yet."""
    recommended: BatchSize
    total_steps: int
    shapes: str
    """A table of the shapes."""


def find_start(
    config: XTTSConfig, init_from: str | Path | Checkpoint | None, *, from_scratch: bool
) -> tuple[Checkpoint | None, str]:
    """Return the checkpoint whose weights a new run starts with, if any, and why.

    The included base model is the default where it fits the given settings.
    """
    if init_from is not None:
        if from_scratch:
            raise ConfigError("--from-scratch: cannot be combined with --init-from")
        if not isinstance(init_from, Checkpoint):
            init_from = find_checkpoint(run_to_start_from(init_from), for_synthesis=True)
        return init_from, f"{model_name(init_from.folder)} (--init-from)"
    if from_scratch:
        return None, "random weights (--from-scratch)"
    if config.training.task != "acoustic":
        return None, "random weights (--init-from vocoder starts from the included vocoder)"
    base = find_checkpoint(run_or_base(None), for_synthesis=True)
    if against := settings_against(base.config(), config):
        return None, f"random weights, since the base model has another {', '.join(against)}"
    return base, "the base model (--from-scratch starts from random weights)"


def plan_run(
    config: XTTSConfig,
    observer: Observer,
    *,
    resume: Checkpoint | None = None,
    init_from: str | Path | Checkpoint | None = None,
    from_scratch: bool = False,
    init_partially: bool = False,
    devices: Devices | None = None,
) -> RunPlan:
    """Set up the devices, prepare the corpus and plan its batches. A dry run ends here.

    With `devices`, plan for these instead of the configured ones.
    """
    from myxtts.data.metadata import require_corpora

    # Configuration: another run brings its model settings along, and a missing corpus is the demo.
    start = None
    if resume is None:
        start, why = find_start(config, init_from, from_scratch=from_scratch)
        observer.on_notice(f"Start: {why}")
    else:
        observer.on_notice(f"Start: step {resume.info.step} of {RunDir.around(resume.folder)}")
    if start is not None:
        config = config_to_start_with(start.config(), config, partially=init_partially)
    require_corpora(config)
    for change in changes_since(resume, config) if resume else ():
        observer.on_notice(f"Changed since the checkpoint: {change}")
    if config.data.train_data is None:
        if DEMO_CORPUS.is_dir():
            observer.on_notice(f"No corpus given: using the demo corpus in {DEMO_CORPUS}")
        else:
            from myxtts.data.demo import make_demo_corpus

            observer.on_notice(f"No corpus given: generating the demo corpus in {DEMO_CORPUS}")
            make_demo_corpus(
                DEMO_CORPUS, on_progress=lambda *count: observer.on_prepare("demo", *count)
            )
        config = config.with_(train_data=str(DEMO_CORPUS))

    # Devices.
    observer.on_phase("loading TensorFlow")
    load_tensorflow(program_cache(config.training.xla))
    from myxtts.data.corpus import open_caches, plan_corpus
    from myxtts.data.shapes import describe_plan as describe_shapes
    from myxtts.data.shapes import with_recommended_batch_size
    from myxtts.devices.strategy import chief_first, set_up_devices, uses_xla
    from myxtts.runs.trained_model import find_predicting_checkpoint
    from myxtts.training.trainer import TASKS, make_feed

    if config.vocoder.mels_from:
        find_predicting_checkpoint(config)
    devices = devices or set_up_devices(config)
    strategy = devices.strategy
    replicas = strategy.num_replicas_in_sync

    # Corpus: the features of all clips, in a cache that machines may share.
    with chief_first(strategy):
        train_cache, validation_cache = open_caches(config, observer.on_prepare)

    # Plan: batch size, shapes and schedule, planned once.
    chosen, recommended = with_recommended_batch_size(train_cache.clips, config, replicas=replicas)
    if resume is None:
        config = chosen
    vocabulary = resume or start
    corpus = plan_corpus(
        train_cache,
        validation_cache,
        config,
        replicas=replicas,
        xla=uses_xla(strategy, config.training.xla),
        plan_file=resume.plan_file if resume else None,
        vocabulary=vocabulary.tokenizer() if vocabulary else None,
    )
    config = with_best_metric(config, corpus.own_tokenizer.languages)
    total_steps = corpus.train.schedule.planned_steps(config.training)
    if resume is not None:
        require_length(resume, total_steps)
    task = TASKS[config.training.task](config, corpus)
    with chief_first(strategy):
        task.prepare(observer.on_predicted_mels)
    feed = make_feed(task, config, strategy, total_steps, devices.data_device)
    shapes = describe_shapes(corpus.train.plan, config)
    return RunPlan(config, start, devices, corpus, task, feed, recommended, total_steps, shapes)


def train(
    config: XTTSConfig,
    run_dir: str | Path | None = None,
    *,
    resume: bool | Checkpoint | None = None,
    init_from: str | Path | Checkpoint | None = None,
    from_scratch: bool = False,
    init_partially: bool = False,
    allow_changed_corpus: bool = False,
    observer: Observer | None = None,
) -> RunReport:
    """Train a model into a run folder, on the devices that the configuration names.

    It starts from the included base model, from random weights with `from_scratch` or with model
    settings other than the base's, or from `init_from`: another run, whose EMA weights must fit
    the model; with `init_partially`, those that fit are enough. `run_dir` None is the next free
    number in runs/. `resume` continues from a checkpoint, by default the newest in `run_dir`; a
    changed corpus is an error unless `allow_changed_corpus`. Ctrl-C, SIGTERM and SIGHUP finish
    the step, save and return.

    >>> report = myxtts.train(XTTSConfig(train_data="my-corpus"), "runs/mine")  # doctest: +SKIP
    """
    observer, account = observer or Observer(), TimeAccount()
    run = None if run_dir is None else RunDir(run_dir)

    # What to start from, checked first: a finished run has nothing left to do.
    resumed: Checkpoint | None = None
    if resume:
        if init_from is not None or from_scratch:
            raise CheckpointError("resume: cannot be combined with init_from or from_scratch")
        if run is None:
            raise CheckpointError("resume: needs run_dir, the folder of the run to resume")
        if isinstance(resume, Checkpoint):
            resumed = resume
        elif not run.can_start_over:
            resumed = run.newest_checkpoint()
        else:
            from_scratch = run.started_from is None
    if resumed is not None:
        assert run is not None
        config = with_best_metric_of(resumed.config(), config)
        finished = RunReport.read(run)
        if (
            finished is not None
            and finished.is_complete
            and finished.steps == resumed.info.step
            and not changes_since(resumed, config)
        ):
            observer.on_notice(
                f"{run}: is finished, {finished.state} after "
                f"{plural_count(finished.steps, 'step')}; to train further, raise --max-steps or "
                "--epochs"
            )
            return finished

    with Interruption() as interruption, contextlib.ExitStack() as stack:
        writes = _is_chief(run)
        if writes and run is not None and resumed is None:
            _require_free(run)
            if run.holds_a_run:
                observer.on_notice(f"{run}: was stopped before its first checkpoint; starting over")
        start: dict[str, Any] = {
            "resume": resumed,
            "init_from": init_from,
            "from_scratch": from_scratch,
            "init_partially": init_partially,
        }
        plan = plan_run(config, observer, **start)
        for line in describe_plan(plan):
            observer.on_notice(line)
        _log.info("Length: %s", plan.corpus.train.schedule.planned_length(plan.config.training))
        _log.info("%s", plan.shapes)

        # Run folder: locked, so that no other process trains into it.
        run = run or RunDir.make_next_in(RUNS)
        run.make()
        observer.on_notice(f"Run folder: {run}")
        measurer: BackgroundEvaluation | None = None
        if writes:
            stack.enter_context(run.lock())
            if resumed is None and (plan.start is None or is_included(plan.start.folder)):
                # What --resume starts over with.
                save_config(plan.config, run.config_file)
                if plan.start is not None:
                    content = json.dumps({"checkpoint": str(plan.start.folder)})
                    write_file(run.start_report_file, content)
            if plan.config.evaluation.measure_every is not None:
                languages = plan.corpus.own_tokenizer.languages
                measurer = BackgroundEvaluation(run, plan.config, languages)
                stack.callback(measurer.close)

        # Model, optimizer, restore, warm-up. If mirrored training fails its test, the same again on
        # one device, unless strict.
        from myxtts.training.step import ReplicasFailedError

        def prepared(plan: RunPlan) -> XTTSTrainer:
            return prepare_trainer(
                plan,
                run,
                observer,
                account,
                interruption,
                measurer,
                resume=resumed,
                init_partially=init_partially,
                allow_changed_corpus=allow_changed_corpus,
            )

        try:
            trainer = prepared(plan)
        except ReplicasFailedError as error:
            alone = _on_first_device(plan, error)
            # Its mirrored weights must not stay in memory.
            del plan.task.model
            plan = plan_run(config, Observer(), **start, devices=alone)
            trainer = prepared(plan)

        # Loop.
        report = trainer.fit()
        if writes:
            observer.on_end(report, plan.task.next_command(run.path))
        return report


def prepare_trainer(
    plan: RunPlan,
    run: RunDir,
    observer: Observer,
    account: TimeAccount,
    interruption: Interruption,
    measurer: BackgroundEvaluation | None = None,
    *,
    resume: Checkpoint | None = None,
    init_partially: bool = False,
    allow_changed_corpus: bool = False,
) -> XTTSTrainer:
    """Start the input pipeline, build the model and warm up the step."""
    from myxtts.training.trainer import XTTSTrainer

    with contextlib.ExitStack() as on_failure:
        # The data device starts first: the model waits for its first batches.
        plan = _with_started_feed(plan, observer, resume.info.step if resume else 0)
        on_failure.callback(plan.feed.close)

        # Model and optimizer, in the scope of the strategy.
        trainer = XTTSTrainer(
            plan.config,
            plan.corpus,
            run,
            strategy=plan.devices.strategy,
            task=plan.task,
            observer=observer,
            account=account,
            feed=plan.feed,
            interruption=interruption,
            measurer=measurer,
        )

        # Restore: a checkpoint of this run, or the weights of another.
        if resume is not None:
            step = trainer.resume(resume, allow_changed_corpus=allow_changed_corpus)
            observer.on_phase(f"resuming from step {step}")
        elif plan.start is not None:
            trainer.start_from(plan.start, partially=init_partially)

        # Warm-up: every shape is compiled once.
        trainer.prepare()
        on_failure.pop_all()
        return trainer


def _with_started_feed(plan: RunPlan, observer: Observer, first_step: int) -> RunPlan:
    """Return the plan with a feed that has batches, without its data device if that fails."""
    from myxtts.devices.strategy import turn_multi_gpu_mode_off
    from myxtts.training.trainer import make_feed

    feed, devices, config = plan.feed, plan.devices, plan.config
    feed.start(first_step)
    if devices.data_device is None:
        return plan
    delay_seconds, awaited = config.data.model_start_delay, feed.batches_before_model
    observer.on_notice(
        f"data device started; model starts in {delay_seconds:.1f} s, when "
        f"{plural_count(awaited, 'batch')} {'is' if awaited == 1 else 'are'} ready"
    )
    try:
        waited_seconds, ready = feed.wait_until_ready(delay_seconds)
    except BaseException as error:
        feed.close()
        if not isinstance(error, DeviceError):
            raise
        turn_multi_gpu_mode_off(str(error), config)
        feed = make_feed(plan.task, config, devices.strategy, plan.total_steps)
        feed.start(first_step)
        return plan._replace(devices=devices._replace(data_device=None), feed=feed)
    observer.on_notice(
        f"model started after {waited_seconds:.1f} s with {plural_count(ready, 'batch')} ready"
    )
    return plan


def _on_first_device(plan: RunPlan, error: DeviceError) -> Devices:
    import tensorflow as tf

    from myxtts.devices.strategy import devices_here, place_of

    devices = plan.devices
    if plan.config.training.strict_devices or place_of(devices.strategy).workers > 1:
        raise error
    first = devices_here(devices.strategy)[0]
    _log.warning(
        "mirrored training does not work here: %s; continuing on %s alone "
        "(--strict-devices stops instead)",
        error,
        first,
    )
    return devices._replace(strategy=tf.distribute.OneDeviceStrategy(first))


def _is_chief(run: RunDir | None) -> bool:
    """Return whether this process writes the run; on several machines only one does."""
    cluster = find_cluster()
    if cluster is not None and run is None:
        raise ConfigError(
            f"--run-dir: is required for training on {cluster.workers} machines; use a folder "
            "that all of them share"
        )
    return cluster is None or cluster.index == 0


def _require_free(run: RunDir) -> None:
    run.require_text_name()
    # A run that was killed before its first checkpoint starts over.
    if run.has_saved:
        raise CheckpointError(
            f"{run}: already contains a run; continue it with --resume, or use another --run-dir"
        )
    if run.path.exists() and not run.path.is_dir():
        raise CheckpointError(f"{run}: is a file, expected a folder for the run")
