from myxtts.cli.progress_line import Pace, Stage, clock_time


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def stage_of_run(clock: Clock, seconds_of_step: float = 0.8) -> Stage:
    stage = Stage("step", "step", clock=clock)
    for step in range(50):
        stage.count(step, 4_000)
        clock.now += seconds_of_step
    return stage


def test_the_line_never_fills_its_terminal_even_with_ctrl_c_behind_it():
    clock = Clock()
    stage = stage_of_run(clock)
    stage.details = ["loss 0.621", "useful 93%", "(prior 0.309 duration 0.104 flow 0.208)"]
    for width in range(1, 200):
        assert stage.as_text(width).cell_len + len("^C") < max(width, 4)


def test_what_matters_survives_where_there_is_little_room():
    stage = stage_of_run(Clock())
    stage.details = ["loss 0.621", "useful 93%"]
    line = stage.as_text(60).plain
    assert line.startswith("step 49/4,000  ─────")
    assert "1.25 steps/s  ETA 52:40" in line
    assert "useful" not in line
    assert stage.as_text(60, ascii_only=True).plain.isascii()


def test_what_was_counted_in_one_piece_has_no_rate():
    clock = Clock()
    stage = Stage("preparing training clips", "clip", clock=clock)
    for done in (1, 79):
        stage.count(done, 79)
        clock.now += 1e-4
    assert stage.as_line() == "preparing training clips 79/79"


def test_slow_steps_are_counted_in_seconds():
    assert "12.5 s/step" in stage_of_run(Clock(), 12.5).as_text(80).plain


def test_the_remaining_time_goes_down_between_steps():
    clock = Clock()
    pace = Pace(clock)
    for step in range(5):
        pace.tick(step)
        clock.now += 20
    clock.now -= 20
    assert pace.seconds_left(10) == 120
    clock.now += 15
    assert pace.seconds_left(10) == 105


def test_a_pause_is_no_slower_step_but_takes_time():
    clock = Clock()
    pace = Pace(clock)
    for step in range(11):
        pace.tick(step)
        clock.now += 1
    pace.pause()
    clock.now += 9
    pace.resume()
    pace.tick(11)
    assert pace.per_second == 1
    assert pace.seconds_left(22) == 20
    clock.now += 2
    pace.tick(12)
    assert pace.per_second == 0.5


def test_a_resumed_run_does_not_count_the_steps_before_it():
    clock = Clock()
    pace = Pace(clock)
    pace.tick(3_000)
    assert pace.per_second is None
    assert pace.seconds_left(4_000) is None
    clock.now += 2
    pace.tick(3_001)
    assert pace.per_second == 0.5
    assert pace.seconds_left(3_011) == 20


def test_nothing_of_a_stage_without_a_count_pretends_to_know_its_end():
    clock = Clock()
    stage = Stage("loading TensorFlow", clock=clock)
    clock.now += 63
    assert stage.as_text(80).plain == "loading TensorFlow  1:03"


def test_times():
    assert [clock_time(it) for it in (0, 59.6, 3_599, 3_725)] == [
        "0:00",
        "1:00",
        "59:59",
        "1:02:05",
    ]


def test_the_remaining_time_knows_that_later_steps_take_longer():
    clock = Clock()
    stage = Stage("step", "step", clock=clock)

    def time_of_steps(count: int) -> float:
        return count + 3.0 * max(0, count - 20)

    for step in range(31):
        stage.count(step, 40, time_of_steps)
        if step in (10, 20, 30):
            left = time_of_steps(40) - time_of_steps(step)
            assert stage.eta() == f"ETA {clock_time(left)}"
        clock.now += 1.0 if step < 20 else 4.0
