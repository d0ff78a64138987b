"""Draws docs/*/architecture.svg in each language: the path from a corpus to speech."""

from __future__ import annotations

from pathlib import Path

STOPS = {
    "en": [
        ("metadata.csv, wavs/", "your recordings"),
        ("data.metadata", "read the rows"),
        ("data.cache", "build features, once"),
        ("data.schedule", "plan shapes and batches"),
        ("data.pipeline", "feed the device"),
        ("training", "fit the model"),
        ("runs", "keep checkpoints, report"),
        ("synthesis", "speak"),
        ("out.wav", "new text, your voice"),
    ],
    "fa": [
        ("metadata.csv, wavs/", "صداهای ضبط‌شدهٔ شما"),
        ("data.metadata", "خواندن سطرها"),
        ("data.cache", "ساختن ویژگی‌ها، یک بار"),
        ("data.schedule", "برنامهٔ شکل‌ها و batchها"),
        ("data.pipeline", "رساندن داده به دستگاه"),
        ("training", "آموزش مدل"),
        ("runs", "نگهداری وزن‌ها و گزارش"),
        ("synthesis", "خواندن متن"),
        ("out.wav", "متن تازه با صدای شما"),
    ],
}
WIDTH, HEIGHT, GAP, COLUMNS = 210, 62, 34, 3


def box(index: int, name: str, what: str) -> str:
    row, column = divmod(index, COLUMNS)
    # Every other row runs backwards, so that the path is continuous.
    column = COLUMNS - 1 - column if row % 2 else column
    left, top = 10 + column * (WIDTH + GAP), 10 + row * (HEIGHT + GAP)
    middle = left + WIDTH / 2
    return (
        f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
        f'<text class="name" x="{middle}" y="{top + 26}">{name}</text>'
        f'<text class="what" x="{middle}" y="{top + 47}">{what}</text>'
    )


def arrow(index: int) -> str:
    row, column = divmod(index, COLUMNS)
    forward = row % 2 == 0
    column = column if forward else COLUMNS - 1 - column
    left, top = 10 + column * (WIDTH + GAP), 10 + row * (HEIGHT + GAP)
    if index % COLUMNS == COLUMNS - 1:
        x, y = left + WIDTH / 2, top + HEIGHT
        return f'<path d="M{x} {y} v{GAP - 6}"/>'
    y = top + HEIGHT / 2
    x = left + WIDTH if forward else left
    return f'<path d="M{x} {y} h{GAP - 6 if forward else 6 - GAP}"/>'


def draw(language: str) -> str:
    stops = STOPS[language]
    rows = -(-len(stops) // COLUMNS)
    width = 20 + COLUMNS * WIDTH + (COLUMNS - 1) * GAP
    height = 20 + rows * HEIGHT + (rows - 1) * GAP
    style = (
        "rect{fill:#eef4fb;stroke:#33658a}path{stroke:#33658a;stroke-width:2;fill:none;"
        "marker-end:url(#tip)}text{text-anchor:middle;font-family:sans-serif;fill:#1b2a38}"
        ".name{font-size:14px;font-weight:bold}.what{font-size:13px}"
    )
    tip = (
        '<marker id="tip" viewBox="0 0 6 6" refX="1" refY="3" markerWidth="5" markerHeight="5" '
        'orient="auto"><path d="M0 0 L6 3 L0 6z" style="fill:#33658a;stroke:none;marker-end:none"/>'
        "</marker>"
    )
    parts = [box(index, *stop) for index, stop in enumerate(stops)]
    parts += [arrow(index) for index in range(len(stops) - 1)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><style>{style}</style><defs>{tip}</defs>'
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    for language in STOPS:
        folder = Path(__file__).parents[2] / "docs" / language
        (folder / "architecture.svg").write_text(draw(language), encoding="utf-8")
