import os
import stat
import subprocess
import sys
import threading

import pytest

from myxtts import whole_files
from myxtts.whole_files import (
    MoveError,
    move_into_place,
    remove_temporaries,
    temporaries_of,
    whole_file,
    whole_folder,
    write_whole_file,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask_022():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_there_when_its_block_has_ended_and_not_before(tmp_path, durable):
    file = tmp_path / "report.json"
    with whole_file(file, durable=durable) as stream:
        stream.write(b"first")
        assert not file.exists()
    assert file.read_bytes() == b"first"
    write_whole_file(file, "zweite, دوم", durable=durable)
    assert file.read_text(encoding="utf-8") == "zweite, دوم"
    assert names(tmp_path) == ["report.json"]


@pytest.mark.parametrize("error", [OSError, ValueError, KeyboardInterrupt])
def test_a_write_that_fails_leaves_the_old_file_and_no_temporary(tmp_path, error):
    file = tmp_path / "report.json"
    file.write_text("old")

    def fail():
        with whole_file(file) as stream:
            stream.write(b"half of the ne")
            raise error

    with pytest.raises(error):
        fail()
    assert file.read_text() == "old"
    assert names(tmp_path) == ["report.json"]


def test_a_rename_that_fails_leaves_no_temporary(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole_file(tmp_path / "taken", b"content")
    assert names(tmp_path) == ["taken"]


def test_two_writers_do_not_meet_and_the_later_one_wins(tmp_path):
    file = tmp_path / "config.yaml"
    with whole_file(file) as one:
        one.write(b"one")
        with whole_file(file) as other:
            other.write(b"other")
        assert file.read_bytes() == b"other"
        one.write(b", to its end")
    assert file.read_bytes() == b"one, to its end"


def test_writers_in_many_processes_leave_one_whole_file(tmp_path, user_environment):
    program = """
import sys
from pathlib import Path
from myxtts.whole_files import write_whole_file
for _ in range(200):
    write_whole_file(Path(sys.argv[1]), sys.argv[2] * 100_000)
"""
    file = tmp_path / "file"
    processes = [
        subprocess.Popen([sys.executable, "-c", program, file, letter], env=user_environment)
        for letter in "abc"
    ]
    while any(process.poll() is None for process in processes):
        if file.exists():
            content = file.read_text()
            assert content == content[:1] * 100_000
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert names(tmp_path) == ["file"]


def test_a_link_in_place_of_the_temporary_is_not_followed(tmp_path, monkeypatch):
    """The name is guessed, here by taking away the chance: the link is passed over."""
    digits = iter(["00000000", "11111111"])
    monkeypatch.setattr(whole_files.secrets, "token_hex", lambda count: next(digits))
    outside = tmp_path / "outside"
    outside.write_text("somebody else's")
    link = tmp_path / ".file.00000000.part"
    link.symlink_to(outside)
    write_whole_file(tmp_path / "file", "content")
    assert outside.read_text() == "somebody else's"
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == "content"
    assert not (tmp_path / "file").is_symlink()


@pytest.mark.parametrize("make", [whole_file, whole_folder])
def test_a_name_that_is_always_taken_is_an_error(tmp_path, monkeypatch, make):
    monkeypatch.setattr(whole_files.secrets, "token_hex", lambda count: "00000000")
    (tmp_path / ".it.00000000.part").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError), make(tmp_path / "it"):
        pass
    assert names(tmp_path) == [".it.00000000.part"]


def test_a_link_where_the_file_belongs_is_replaced_and_not_written_through(tmp_path):
    outside, file = tmp_path / "outside", tmp_path / "file"
    outside.write_text("somebody else's")
    file.symlink_to(outside)
    write_whole_file(file, "content")
    assert outside.read_text() == "somebody else's"
    assert not file.is_symlink()


def test_permissions_are_those_of_any_other_file(tmp_path, umask_022):
    write_whole_file(tmp_path / "usual", b"")
    write_whole_file(tmp_path / "private", b"", mode=0o600)
    with whole_folder(tmp_path / "folder"):
        pass
    assert mode_of(tmp_path / "usual") == 0o644
    assert mode_of(tmp_path / "private") == 0o600
    assert mode_of(tmp_path / "folder") == 0o755


def test_a_folder_is_there_when_its_block_has_ended_and_not_before(tmp_path):
    folder = tmp_path / "new" / "folder"
    with whole_folder(folder) as part:
        (part / "file").write_text("content")
        assert not folder.exists()
    assert names(folder) == ["file"]
    assert names(folder.parent) == ["folder"]


def test_a_folder_that_fails_leaves_the_old_one_and_no_temporary(tmp_path):
    folder = tmp_path / "best"
    folder.mkdir()
    (folder / "old").touch()

    def fail():
        with whole_folder(folder, replace=True) as part:
            (part / "new").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(tmp_path) == ["best"]
    assert names(folder) == ["old"]


def test_a_folder_is_replaced_only_on_demand(tmp_path):
    folder = tmp_path / "best"
    for _ in range(2):
        with whole_folder(folder, replace=True, durable=True) as part:
            (part / "file").touch()
    with pytest.raises(MoveError), whole_folder(folder) as part:
        (part / "other").touch()
    assert names(tmp_path) == ["best"]
    assert names(folder) == ["file"]


def test_a_file_in_the_way_of_a_folder_stays(tmp_path):
    (tmp_path / "best").write_text("a letter")
    with (
        pytest.raises(NotADirectoryError, match="a file is in the way"),
        whole_folder(tmp_path / "best", replace=True),
    ):
        pass
    assert names(tmp_path) == ["best"]
    assert (tmp_path / "best").read_text() == "a letter"


def test_a_link_in_the_way_of_a_folder_goes_and_what_it_leads_to_stays(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (tmp_path / "best").symlink_to(outside)
    with whole_folder(tmp_path / "best", replace=True):
        pass
    assert names(outside) == ["file"]
    assert names(tmp_path) == ["best", "outside"]
    assert not (tmp_path / "best").is_symlink()


def test_what_stood_there_comes_back_when_the_other_cannot_be_moved(tmp_path):
    folder = tmp_path / "best"
    folder.mkdir()
    (folder / "old").touch()
    with pytest.raises(MoveError):
        move_into_place(tmp_path / "missing", folder, replace=True)
    assert names(tmp_path) == ["best"]
    assert names(folder) == ["old"]


def test_temporaries_are_found_by_their_place_and_removed(tmp_path):
    facts = tmp_path / "anna.json"
    ours = [tmp_path / ".anna.json.0123abcd.part"]
    for file in (*ours, facts, tmp_path / ".anna.txt.0123abcd.part", tmp_path / ".hidden"):
        file.touch()
    (tmp_path / ".best.0123abcd.replaced" / "inside").mkdir(parents=True)
    assert temporaries_of(facts) == ours
    remove_temporaries(tmp_path)
    assert names(tmp_path) == [".hidden", "anna.json"]
    remove_temporaries(tmp_path / "missing")


def test_a_link_among_the_temporaries_is_removed_and_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (tmp_path / ".best.00000000.part").symlink_to(outside)
    remove_temporaries(tmp_path)
    assert names(tmp_path) == ["outside"]
    assert names(outside) == ["file"]


def test_threads_write_one_file_at_once(tmp_path):
    file = tmp_path / "file"
    threads = [
        threading.Thread(target=write_whole_file, args=(file, bytes([number]) * 1_000_000))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = file.read_bytes()
    assert content == content[:1] * 1_000_000
    assert names(tmp_path) == ["file"]
