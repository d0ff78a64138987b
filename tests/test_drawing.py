"""Pictures are judged by their pixels."""

import io

import numpy as np
import pytest
from PIL import Image

from myxtts.drawing import (
    BLUE,
    GREYS,
    ORANGE,
    RED,
    SERIES_COLOURS,
    WHITE,
    BarRow,
    Box,
    Canvas,
    Plot,
    as_png,
    bar_rows,
    drawable,
    grid_corner,
    heat_map,
    labelled_heat_map,
    legend_pixels,
    number_text,
    round_step,
    round_ticks,
    series_colour,
    ticks_around,
)

BOX = Box(60, 40, 260, 140)


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("RGB")).astype(int)


def places_of(image: Image.Image, colour) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the pixels of a colour."""
    rows, columns = np.nonzero((pixels(image) == colour).all(axis=-1))
    assert rows.size, f"nothing has the colour {colour}"
    return rows, columns


def heights(image: Image.Image, colour=BLUE) -> list[int]:
    """Pixels of the colour in each column that has any, neighbours of one height once."""
    counts = (pixels(image) == colour).all(axis=-1).sum(axis=0)
    changes = np.flatnonzero(np.diff(np.append(0, counts)))
    return [int(counts[place]) for place in changes if counts[place]]


def ink(image: Image.Image) -> np.ndarray:
    """Where anything is drawn."""
    return (pixels(image) != WHITE).any(axis=-1)


def plot(canvas: Canvas, x_ends=(0.0, 4.0), y_ends=(0.0, 10.0)) -> Plot:
    return Plot(canvas, BOX, x_ends, y_ends)


def test_a_bar_of_twice_the_value_is_twice_as_high():
    canvas = Canvas(320, 200)
    plot(canvas).bars([2.0, 4.0, 0.0, 10.0], 1.0)
    low, middle, high = heights(canvas.image)
    # One row more each: the base is one of them.
    assert (middle - 1) == 2 * (low - 1)
    assert (high - 1) == 5 * (low - 1) == BOX.bottom - BOX.top


def test_one_among_thousands_is_seen():
    canvas = Canvas(320, 200)
    plot(canvas, y_ends=(0.0, 9_000.0)).bars([9_000.0, 1.0], 1.0)
    assert min(heights(canvas.image)) >= 2


def test_named_bars_stand_apart_and_are_not_wider_than_asked():
    canvas = Canvas(320, 200)
    plot(canvas, x_ends=(0.0, 2.0)).bars([10.0, 10.0], 1.0, widest=30)
    _, columns = places_of(canvas.image, BLUE)
    used = np.unique(columns)
    (gap,) = np.flatnonzero(np.diff(used) > 1)
    assert gap + 1 <= 31
    assert used.size - (gap + 1) <= 31


def test_a_curve_goes_through_its_points():
    canvas = Canvas(320, 200)
    drawn = plot(canvas)
    points = [(0.0, 0.0), (1.0, 10.0), (4.0, 5.0)]
    drawn.curve(points, RED)
    at = pixels(canvas.image)
    for x, y in points:
        assert tuple(at[round(drawn.y(y)), round(drawn.x(x))]) == RED
    assert (drawn.x(0.0), drawn.x(4.0)) == (BOX.left, BOX.right)
    assert (drawn.y(0.0), drawn.y(10.0)) == (BOX.bottom, BOX.top)


def test_many_points_are_a_line_without_discs():
    def drawn(count: int) -> int:
        canvas = Canvas(320, 200)
        plot(canvas).curve([(4 * n / count, 5.0) for n in range(count)], RED)
        rows, _ = places_of(canvas.image, RED)
        return int(rows.max() - rows.min())

    assert drawn(31) < 3 < drawn(30)


def test_marks_and_levels_lie_at_their_values():
    canvas = Canvas(320, 200)
    drawn = plot(canvas)
    drawn.mark(3.0, ORANGE)
    rows, columns = places_of(canvas.image, ORANGE)
    assert abs(columns.mean() - drawn.x(3.0)) <= 1
    assert rows.min() < BOX.top < BOX.bottom <= rows.max()

    canvas = Canvas(320, 200)
    drawn = plot(canvas)
    drawn.level(2.5, "")
    rows, columns = np.nonzero(ink(canvas.image))
    assert set(rows) == {round(drawn.y(2.5))}
    assert np.diff(np.unique(columns)).max() > 1  # dashes


def test_labels_are_inside_the_canvas():
    canvas = Canvas(340, 200)
    drawn = plot(canvas, (0.0, 30_000.0), (0.0, 1_000.0))
    drawn.title("A title", 15, 24)
    drawn.y_axis([0, 500, 1_000], "clips")
    drawn.x_axis([0, 10_000, 20_000, 30_000], "seconds")
    drawn.notes([("95%", ORANGE), ("99%", RED)], 12, 24)
    marked = ink(canvas.image)
    for edge in (marked[0], marked[-1], marked[:, 0], marked[:, -1]):
        assert not edge.any()
    assert marked[:, : BOX.left - 4].any()  # numbers at the left
    assert marked[BOX.bottom + 6 :].any()  # numbers below
    assert marked[: BOX.top - 4].any()  # the title
    orange, red = (places_of(canvas.image, colour)[1] for colour in (ORANGE, RED))
    assert orange.max() < red.min()
    assert red.max() <= BOX.right


def test_an_axis_of_names_and_one_without_a_grid():
    canvas = Canvas(320, 200)
    drawn = plot(canvas, (0.0, 2.0))
    drawn.names_axis(["ann", "bob"])
    words = np.flatnonzero(ink(canvas.image)[BOX.bottom + 2 :].any(axis=0))
    middle = (BOX.left + BOX.right) / 2
    for half, centre in ((words[words < middle], 110), (words[words > middle], 210)):
        assert (half[0] + half[-1]) / 2 == pytest.approx(centre, abs=2)

    canvas = Canvas(320, 200)
    plot(canvas).y_axis([0, 5, 10], grid=False)
    assert not ink(canvas.image)[:, BOX.left + 1 :].any()
    canvas = Canvas(320, 200)
    plot(canvas).y_axis([0, 5, 10])
    assert ink(canvas.image)[:, BOX.left + 1 : BOX.right].all(axis=1).sum() == 3


def test_a_legend_has_the_colours_of_the_curves():
    canvas = Canvas(200, legend_pixels(3) + 10)
    canvas.legend(["a", "b", "c"], 10, 20)
    first_rows = [places_of(canvas.image, series_colour(number))[0].min() for number in range(3)]
    assert first_rows == sorted(first_rows)
    assert series_colour(len(SERIES_COLOURS)) == series_colour(0)


def test_rows_of_bars():
    canvas = Canvas(400, 120)
    rows = [
        BarRow("a", 1.0, "1", BLUE),
        BarRow("b", 2.0, "2", ORANGE),
        BarRow("c", None, "", (1, 2, 3)),
        BarRow("d", -1.0, "-1", RED),
    ]
    bar_rows(canvas, (20, 10), rows, 200)
    widths = {colour: np.ptp(places_of(canvas.image, colour)[1]) for colour in (BLUE, ORANGE, RED)}
    assert widths == {BLUE: 100, ORANGE: 200, RED: 1}
    assert not (pixels(canvas.image) == (1, 2, 3)).all(axis=-1).any()


def test_a_heat_map_has_its_first_row_at_the_bottom():
    values = np.zeros((3, 2), np.float32)  # [columns, rows]
    values[0, 0] = 1.0
    values[2, 1] = 9.0  # more than most is most
    picture = heat_map(values, GREYS, cell=(4, 5))
    assert (picture.mode, picture.size) == ("P", (12, 10))
    black = (pixels(picture) == 0).all(axis=-1)
    assert black[5:, :4].all()
    assert black[:5, 8:].all()
    assert black.sum() == 2 * 20
    assert (pixels(picture)[~black] == 255).all()


@pytest.mark.parametrize("cells", [(2, 3), (200, 60)])
def test_a_labelled_heat_map_holds_the_map_and_its_words(cells):
    picture = heat_map(np.ones(cells, np.float32), ((0, 0, 9), (0, 0, 9)), cell=(3, 6))
    image = labelled_heat_map(picture, cells, "A title of some length", "positions", "tokens")
    rows, columns = places_of(image, (0, 0, 9))
    # The axes are drawn over its left and lower edge.
    assert np.ptp(rows) + 1 >= picture.height - 1
    assert np.ptp(columns) + 1 >= picture.width - 1
    marked = ink(image)
    for edge in (marked[0], marked[-1], marked[:, 0], marked[:, -1]):
        assert not edge.any()


def test_png_bytes_are_the_picture():
    canvas = Canvas(30, 20)
    canvas.rectangle((2, 3), (9, 9), BLUE)
    with Image.open(io.BytesIO(as_png(canvas.image))) as read:
        assert read.format == "PNG"
        assert (pixels(read) == pixels(canvas.image)).all()


@pytest.mark.parametrize(
    ("wanted", "expected"), [(0.013, 0.02), (0.2, 0.2), (0.9, 1), (1, 1), (3, 5), (51, 100)]
)
def test_steps_are_round(wanted, expected):
    assert round_step(wanted) == pytest.approx(expected)


def test_ticks_reach_past_the_end():
    assert round_ticks(23, most=5) == [0, 5, 10, 15, 20, 25]
    assert round_ticks(1, most=5, whole=True) == [0, 1]


@pytest.mark.parametrize("values", [[0.31, 0.97], [-3.0, 12.0], [5.0], [0.0]])
def test_ticks_lie_around_the_values(values):
    ticks = ticks_around(values)
    assert len(ticks) >= 2
    assert ticks[0] <= min(values)
    assert max(values) <= ticks[-1]
    assert np.diff(ticks) == pytest.approx(ticks[1] - ticks[0])


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.30000000000000004, 6, "0.3"),
        (2_000_000.0, 6, "2,000,000"),
        (0, 6, "0"),
        (-0.5, 6, "-0.5"),
        (1e-7, 6, "1e-07"),
        (12.3456, 3, "12.3"),
        (12_345.6, 3, "12,346"),
    ],
)
def test_numbers_as_they_are_written(value, digits, text):
    assert number_text(value, digits) == text


def test_names_that_the_font_has_no_letters_for():
    assert drawable("ann", "no. 1") == "ann"
    assert drawable("سارا", "no. 1") == "no. 1"


def test_panels_stand_row_by_row():
    assert [grid_corner(number, 2, 30, 20) for number in range(3)] == [(0, 0), (30, 0), (0, 20)]
