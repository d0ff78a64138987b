import os
import stat
import subprocess
import sys

import pytest

from myxtts import files
from myxtts.files import (
    MoveError,
    atomic_file,
    atomic_folder,
    move_into_place,
    remove_temporaries,
    write_file,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_appears_when_its_block_has_ended(tmp_path, durable):
    file = tmp_path / "report.json"
    with atomic_file(file, durable=durable) as stream:
        stream.write(b"first")
        assert not file.exists()
    assert file.read_bytes() == b"first"
    write_file(file, "zweite, دوم")
    assert file.read_text(encoding="utf-8") == "zweite, دوم"
    assert names(tmp_path) == ["report.json"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_no_temporary(tmp_path, error):
    file = tmp_path / "report.json"
    file.write_text("old")

    def fail():
        with atomic_file(file) as stream:
            stream.write(b"half of the ne")
            raise error

    with pytest.raises(error):
        fail()
    assert file.read_text() == "old"
    assert names(tmp_path) == ["report.json"]


def test_a_failed_rename_leaves_no_temporary(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path / "taken", b"content")
    assert names(tmp_path) == ["taken"]


def test_processes_that_write_the_same_file_leave_one_whole_file(tmp_path, user_environment):
    program = """
import sys
from pathlib import Path
from myxtts.files import write_file
for _ in range(200):
    write_file(Path(sys.argv[1]), sys.argv[2] * 100_000)
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


@pytest.mark.parametrize("make", [atomic_file, atomic_folder])
def test_a_link_in_place_of_the_temporary_is_not_followed(tmp_path, monkeypatch, make):
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "00000000")
    outside = tmp_path / "outside"
    outside.write_text("somebody else's")
    (tmp_path / ".it.00000000.part").symlink_to(outside)
    with pytest.raises(FileExistsError), make(tmp_path / "it"):
        pass
    assert outside.read_text() == "somebody else's"


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_link_in_place_of_the_target_is_replaced_and_not_followed(tmp_path, is_folder):
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    (outside / "file").write_text("somebody else's")
    target.symlink_to(outside if is_folder else outside / "file")
    if is_folder:
        with atomic_folder(target, replace=True):
            pass
    else:
        write_file(target, "content")
    assert (outside / "file").read_text() == "somebody else's"
    assert not target.is_symlink()
    assert names(tmp_path) == ["outside", "target"]


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o022)
    try:
        write_file(tmp_path / "file", b"")
        with atomic_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("file", "folder")]
    assert modes == [0o644, 0o755]


def test_a_folder_appears_when_its_block_has_ended(tmp_path):
    folder = tmp_path / "new" / "folder"
    with atomic_folder(folder) as part:
        (part / "file").write_text("content")
        assert not folder.exists()
    assert names(folder) == ["file"]
    assert names(folder.parent) == ["folder"]


def test_a_folder_is_replaced_whole_and_only_on_demand(tmp_path):
    folder = tmp_path / "best"
    for _ in range(2):
        with atomic_folder(folder, replace=True, durable=True) as part:
            (part / "file").touch()
    with pytest.raises(MoveError), atomic_folder(folder) as part:
        (part / "other").touch()
    with pytest.raises(MoveError):
        move_into_place(tmp_path / "missing", folder, replace=True)
    assert names(tmp_path) == ["best"]
    assert names(folder) == ["file"]


def test_a_file_in_place_of_a_folder_stays(tmp_path):
    (tmp_path / "best").write_text("a letter")
    with pytest.raises(NotADirectoryError), atomic_folder(tmp_path / "best", replace=True):
        pass
    assert names(tmp_path) == ["best"]


def test_temporaries_are_removed(tmp_path):
    facts = tmp_path / "anna.json"
    for file in (
        tmp_path / ".anna.json.0123abcd.part",
        facts,
        tmp_path / ".anna.txt.0123abcd.part",
        tmp_path / ".hidden",
    ):
        file.touch()
    (tmp_path / ".best.0123abcd.replaced" / "inside").mkdir(parents=True)
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
