"""The notebook, cell by cell, with one step of training."""

import json
import sys
import types
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "myxtts.ipynb"


@pytest.mark.training
def test_every_cell_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = []
    display = types.ModuleType("IPython.display")
    display.Audio = lambda samples, rate: (samples, rate)
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    names = {"__name__": "notebook"}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code" and not cell["source"][0].startswith("%"):
            exec("".join(cell["source"]).replace("STEPS = 300", "STEPS = 1"), names)
    assert [rate for _, rate in shown] == [22_050] * 3
    assert all(samples.size > 1_000 for samples, _ in shown)
