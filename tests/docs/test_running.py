"""Marked blocks do what their page says, and errors name the place."""

import pytest
from pages import ENGLISH_PAGES, PERSIAN_PAGES, ROOT, read_page
from running import BlockFailedError, MarkError, make_clone, matches, run_step, steps_of


def marked_pages():
    """Once without what is slow, and once with it where there is something slow.

    Persian pages have the commands of the English ones, which is tested elsewhere; marked are those
    that say something in Persian.
    """
    for file in [*ENGLISH_PAGES, *PERSIAN_PAGES, ROOT / "README.md", ROOT / "README.fa.md"]:
        steps = steps_of(read_page(file))
        name = f"fa-{file.name}" if file in PERSIAN_PAGES else file.name
        if not all(step.slow for step in steps):
            yield pytest.param(file, False, id=name)
        if any(step.slow for step in steps):
            yield pytest.param(file, True, id=f"{name}-slow", marks=pytest.mark.slow)


@pytest.mark.parametrize(("file", "slow"), list(marked_pages()))
def test_marked_blocks_do_what_the_page_says(file, slow, tmp_path, user_environment):
    make_clone(tmp_path)
    for step in steps_of(read_page(file)):
        if slow or not step.slow:
            run_step(step, tmp_path, user_environment)


@pytest.fixture
def run_page(tmp_path, user_environment):
    """Run what is given as the text of a page."""

    def run(text):
        file = tmp_path / "page.md"
        file.write_text(text, encoding="utf-8")
        folder = tmp_path / "folder"
        make_clone(folder)
        for step in steps_of(read_page(file)):
            run_step(step, folder, user_environment)
        return folder

    return run


def test_blocks_share_a_folder_and_are_run_in_order(run_page):
    folder = run_page(
        "<!-- setup\necho 1 > numbers\n-->\n\n"
        'Text.\n\n<!-- run: append="2 >> numbers" -->\n\n    echo\n\n'
        "Not marked:\n\n    false\n\n"
        "<!-- file: three -->\n\n```\n3\n```\n\n"
        "<!-- run -->\n\n```bash\ncat three >> numbers\ncat numbers\n```\n\n"
        "<!-- output -->\n\n```\n1\n...\n3\n```\n"
    )
    assert (folder / "numbers").read_text() == "1\n2\n3\n"


@pytest.mark.parametrize("program", ["myxtts", ".venv/bin/myxtts"])
def test_the_command_is_there(run_page, program):
    run_page(f"<!-- run -->\n\n    $ {program} --version\n    myxtts ...\n")


def test_python_runs_in_the_folder(run_page):
    folder = run_page("<!-- run -->\n\n```python\nopen('written', 'w').write('')\n```\n")
    assert (folder / "written").exists()


def test_python_continues_from_the_block_before(run_page):
    folder = run_page(
        "<!-- run: python -->\n\n    name = 'written'\n\n"
        "<!-- run -->\n\n    true\n\n"
        "<!-- run: python continues -->\n\n    open(name, 'w').write('')\n"
    )
    assert (folder / "written").exists()


def test_each_training_of_a_block_gets_what_the_mark_says(tmp_path):
    file = tmp_path / "page.md"
    file.write_text(
        '<!-- run: train="--max-steps 2" -->\n\n'
        "    myxtts validate a\n    myxtts train a    # slow\n"
        "    myxtts train b \\\n        --seed 1\n"
    )
    [step] = steps_of(read_page(file))
    assert step.text == (
        "myxtts validate a\nmyxtts train a --max-steps 2    # slow\n"
        "myxtts train b --max-steps 2 \\\n    --seed 1\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- run -->\n\n    false\n    true\n", r"page.md:3: exit code 1, expected 0\n\nfalse"),
        ("<!-- run: exit=3 -->\n\n    exit 4\n", "page.md:3: exit code 4, expected 3"),
        ("<!-- run -->\n\n    $ echo one\n    two\n", "page.md:3: unexpected output"),
        ("<!-- run -->\n\n    echo one\n\n<!-- output -->\n\n    two\n", "unexpected output"),
    ],
)
def test_what_goes_wrong_is_told_with_its_place(run_page, text, message):
    with pytest.raises(BlockFailedError, match=message):
        run_page(text)


@pytest.mark.parametrize(
    "text",
    [
        "<!-- run -->\n\nNo block.\n",
        "<!-- run -->\n\n<!-- run -->\n\n    true\n",
        "<!-- rum -->\n\n    true\n",
        "<!-- run: python continues -->\n\n    true\n",
        "<!-- run: fast -->\n\n    true\n",
        "<!-- output -->\n\n    true\n",
        '<!-- run: append="--x" -->\n\n    true  # a comment\n',
    ],
)
def test_marks_that_mean_nothing_are_refused(run_page, text):
    with pytest.raises(MarkError, match=r"page\.md:"):
        run_page(text)


def test_expected_output_leaves_open_what_dots_stand_for():
    assert matches("a\nb  \nc\n", "a\n...\nc")
    assert matches("a 0.123 s\n", "a ... s")
    assert not matches("a\nb\nc\n", "a\nc")
    assert not matches("a 1 s\nmore\n", "a ... s")
