import errno
from pathlib import Path

import numpy as np
import pytest

from myxtts.data.features.stored_array import read_array, save_array


def test_what_is_saved_is_read(tmp_path):
    saved = np.arange(12, dtype=np.int32).reshape(4, 3)
    save_array(tmp_path / "a.npy", saved)
    np.save(tmp_path / "b.npy", saved)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert (read_array(tmp_path / "a.npy", np.int32, 2) == saved).all()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told():
    with pytest.raises(OSError, match="No space left on device") as caught:
        save_array(Path("/dev/full"), np.zeros(1_000))
    assert caught.value.errno == errno.ENOSPC
