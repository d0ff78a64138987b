"""The check of commands finds what is wrong with them."""

import pytest
from commands import commands_of, known_flags, missing_files, problems_of, words_of
from pages import ROOT, Block


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("myxtts speak", "has no command speak"),
        ("myxtts train --train-dat my-corpus", "myxtts train has no --train-dat"),
        ("myxtts train --max-steps many", "found 'many', expected a whole number"),
        ("myxtts train --set data.bach_size=8", "unknown setting 'data.bach_size'"),
        ("myxtts train --config persan", "no built-in configuration persan"),
        ("myxtts compare", "required: "),
        ("python train_main.py --fast", "myxtts train has no --fast"),
        ("python benchmarks/step.py --fast", "benchmarks/step.py has no --fast"),
        ("make coffee", "No rule to make target 'coffee'"),
    ],
)
def test_what_a_program_would_refuse_is_found(command, problem):
    assert any(problem in found for found in problems_of(words_of(command), complete=True))


@pytest.mark.parametrize(
    "command",
    [
        "srun .venv/bin/myxtts train --multi-gpu --max-steps N  # any number",
        "myxtts train --set section.key=value ...",
        "python benchmarks/step.py --json FILE",
        "myxtts stats my-corpus --json > stats.json",
        "myxtts train --config persian",
        "myxtts train --config mine.yaml",
        "myxtts train --config FILE",
        "pip install --anything",
    ],
)
def test_what_programs_understand_is_left_alone(command):
    assert not list(problems_of(words_of(command), complete=True))


def test_a_mention_may_leave_out_what_a_command_needs():
    assert not list(problems_of(words_of("myxtts export"), complete=False))
    assert list(problems_of(words_of("myxtts export"), complete=True))


def test_commands_of_a_transcript_follow_its_prompts():
    text = "$ myxtts validate \\\n    my-corpus\nmyxtts validate: is said\n$ ls\n$ make env\n"
    block = Block(ROOT / "page.md", 1, text)
    assert commands_of(block) == [["myxtts", "validate", "my-corpus"], ["make", "env"]]


def test_flags_of_every_program_are_known():
    assert {"--max-steps", "--no-xla", "--checksums", "--kills", "--picture"} <= known_flags()
    assert "--max-step" not in known_flags()


def test_files_of_the_project_that_are_not_there_are_found():
    assert list(missing_files("python benchmarks/step.py tests/none.py")) == [
        "tests/none.py does not exist"
    ]
    assert not list(missing_files("pytest tests/docs/test_commands.py::test runs/docs/x"))
