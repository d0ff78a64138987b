"""Runs contenders in turn and reports median and spread: a table, JSON, and a picture.

`python benchmarks/harness.py FILE.json ...` prints the results of several benchmarks as one page.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
from matplotlib.figure import Figure

_HERE = Path(__file__).parent


class SkippedError(Exception):
    """A contender cannot be measured here."""


@dataclass
class Table:
    """One figure of several contenders, the first of which is MyXTTS."""

    title: str
    unit: str
    better: str
    """lower or higher."""
    values: dict[str, list[float]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    note: str = ""

    def rows(self) -> list[tuple[str, ...]]:
        """Return the contenders from best to worst, with their ratio to the first."""
        medians = {name: statistics.median(values) for name, values in self.values.items()}
        ours = next(iter(medians.values()), 0.0)
        order = sorted(medians, key=medians.__getitem__, reverse=self.better == "higher")
        rows = []
        for name in order:
            values, ratio = self.values[name], medians[name] / ours if ours else float("nan")
            spread = f"{_short(min(values))} to {_short(max(values))}" if len(values) > 1 else ""
            rows.append((name, _short(medians[name]), spread, f"{ratio:.2f}"))
        return [*rows, *((name, "skipped", why, "") for name, why in self.skipped.items())]

    def markdown(self) -> str:
        head = f"| {self.title}, {self.unit} ({self.better} is better) | median | spread | ratio |"
        lines = [head, "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in self.rows())]
        return "\n".join([*lines, *(["", self.note] if self.note else [])])


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


Measured = Mapping[str, float]


def interleave(contenders: Mapping[str, Callable[[], Measured]], repeats: int, **tables: Table):
    """Measure every contender `repeats` times, in turn, so that load on the machine is shared.

    A contender returns figures by the names of the tables.
    """
    for _ in range(repeats):
        for name, measure in contenders.items():
            if any(name in table.skipped for table in tables.values()):
                continue
            print(f"... {name}", file=sys.stderr, flush=True)
            try:
                measured = measure()
            except SkippedError as error:
                for table in tables.values():
                    table.skipped[name] = str(error)
                continue
            for key, value in measured.items():
                tables[key].values.setdefault(name, []).append(value)


def peer_python(peers: Path | None, name: str) -> Path:
    """Return the Python of a peer that benchmarks/peers/install.py has installed."""
    if peers is None:
        raise SkippedError("needs --peers DIR")
    reason = peers / f"{name}.skipped"
    if reason.exists():
        raise SkippedError(reason.read_text().strip())
    python = peers / name / "bin" / "python"
    if not python.exists():
        raise SkippedError("not installed; see benchmarks/peers/install.py")
    return python.absolute()


def ask_peer(
    peers: Path | None, name: str, program: str, given: Any, timeout: float = 7_200
) -> Any:
    """Run benchmarks/peers/PROGRAM with JSON on its standard input, and return its last line."""
    command = [str(peer_python(peers, name)), str(_HERE / "peers" / program)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SkippedError(f"took longer than {timeout:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise SkippedError(lines[-1] if lines else f"exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def arguments(description: str | None, repeats: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=repeats, metavar="N")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="folder of installed peers")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--picture", type=Path, metavar="FILE")
    return parser


def report(tables: Sequence[Table], options: argparse.Namespace) -> None:
    print("\n\n".join(table.markdown() for table in tables))
    command = " ".join(["python", *sys.argv])
    content = {"command": command, "machine": machine(), "tables": [asdict(it) for it in tables]}
    if options.json is not None:
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")
    if options.picture is not None:
        draw(tables, options.picture)


def draw(tables: Sequence[Table], file: Path) -> None:
    """Draw a bar per contender with its spread."""
    figure = Figure(figsize=(10, 1.2 + 0.5 * sum(len(it.values) + 1 for it in tables)))
    panels = figure.subplots(len(tables), squeeze=False)[:, 0]
    for panel, table in zip(panels, tables, strict=True):
        names = [row[0] for row in table.rows() if row[0] in table.values][::-1]
        medians = [statistics.median(table.values[name]) for name in names]
        low = [m - min(table.values[name]) for name, m in zip(names, medians, strict=True)]
        high = [max(table.values[name]) - m for name, m in zip(names, medians, strict=True)]
        panel.barh(names, medians, xerr=[low, high], color="#2563eb", ecolor="#888888")
        panel.set_title(f"{table.title}, {table.unit} ({table.better} is better)", fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")
    return {
        "cpu": model or platform.processor(),
        "cores": len(psutil.Process().cpu_affinity() or []),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Print several results as one page.")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.json")
    for file in parser.parse_args().files:
        content = json.loads(file.read_text(encoding="utf-8"))
        facts = content["machine"]
        print(f"## {file.stem}\n\n    {content['command']}\n")
        print(f"{facts['cpu']}, {facts['cores']} cores, {facts['date']}.\n")
        print("\n\n".join(Table(**table).markdown() for table in content["tables"]), "\n")


if __name__ == "__main__":
    main()
