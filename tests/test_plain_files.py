import os
from pathlib import Path

import pytest

from myxtts.plain_files import open_to_append, read_plain


def test_a_file_is_read_up_to_its_bound(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    assert read_plain(file, 5) == b"12345"
    with pytest.raises(OSError, match="5 bytes, expected at most 4"):
        read_plain(file, 4)


def test_a_file_that_declares_no_size_is_bounded_too():
    assert len(read_plain(Path("/proc/self/status"), 1 << 20)) > 100
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_plain(Path("/proc/self/status"), 10)


@pytest.mark.parametrize("follow_links", [True, False])
def test_devices_fifos_and_folders_are_no_files(tmp_path, follow_links):
    os.mkfifo(tmp_path / "fifo")
    for strange in (Path("/dev/zero"), tmp_path / "fifo", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            read_plain(strange, 10, follow_links=follow_links)


def test_a_link_is_followed_only_where_that_is_asked_for(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "endless").symlink_to("/dev/zero")
    assert read_plain(tmp_path / "link", 10, follow_links=True) == b"x"
    with pytest.raises(OSError, match="is a link"):
        read_plain(tmp_path / "link", 10)
    with pytest.raises(OSError, match="not a regular file"):
        read_plain(tmp_path / "endless", 10, follow_links=True)


def test_a_name_that_no_file_can_have(tmp_path):
    with pytest.raises(OSError, match="null"):
        read_plain(tmp_path / "a\0b", 10)


def test_appending_makes_the_file_and_follows_no_link_of_either_kind(tmp_path):
    for _ in range(2):
        with open_to_append(tmp_path / "lines") as stream:
            stream.write(b"x")
    assert (tmp_path / "lines").read_bytes() == b"xx"
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(OSError, match="is a link"):
        open_to_append(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "second name").hardlink_to(tmp_path / "lines")
    with pytest.raises(OSError, match="hard link"):
        open_to_append(tmp_path / "lines")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        open_to_append(tmp_path / "fifo")


def test_a_bound_takes_no_memory(tmp_path):
    """As little memory as `ulimit -v` leaves is enough for a small file."""
    (tmp_path / "file").write_bytes(b"content")
    assert read_plain(tmp_path / "file", 1 << 46) == b"content"
