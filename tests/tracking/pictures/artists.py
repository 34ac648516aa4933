"""What a figure shows, read back from its artists in a reader's coordinates and words."""

from dataclasses import dataclass

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, FancyBboxPatch, PathPatch, Polygon


@dataclass(frozen=True)
class Line:
    """An edge as it is drawn: the boxes that its ends touch, its arrow heads and circles, and its look."""

    ends: tuple[str, str]
    """the names of the boxes at its two ends, by name"""
    heads: tuple[str, ...]
    circles: tuple[str, ...]
    colour: str
    width: float
    dash: str


def lines(figure, time=False):
    """The edges of a drawing as `Line`; with `time` the boxes are called by column, as `x@0` for the last."""
    axes = figure.axes[0]
    boxes = _boxes(axes, time)
    drawn = [patch for patch in axes.patches if isinstance(patch, PathPatch) and patch.get_linewidth() < 6]
    heads = [patch for patch in axes.patches if isinstance(patch, Polygon)]
    rings = [patch for patch in axes.patches if isinstance(patch, Circle)]
    found = []
    for line in drawn:
        vertices = line.get_path().vertices
        at = {_nearest(boxes, end): end for end in (vertices[0], vertices[-1])}
        found.append(
            Line(
                tuple(sorted(at)),
                tuple(sorted(box for box, end in at.items() if _any_at(end, [one.get_xy()[0] for one in heads], time))),
                tuple(sorted(box for box, end in at.items() if _any_at(end, [one.center for one in rings], time))),
                to_hex(line.get_edgecolor()),
                round(line.get_linewidth(), 4),
                str(line.get_linestyle()),
            )
        )
    return found


def _boxes(axes, time):
    names = [(text.get_text(), text.get_position()) for text in axes.texts]
    boxes = {}
    for patch in axes.patches:
        if isinstance(patch, FancyBboxPatch):
            middle = np.array([patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2])
            (name,) = [name for name, at in names if np.allclose(at, middle)]
            boxes[name, round(float(middle[0]), 6)] = patch.get_window_extent().transformed(axes.transData.inverted())
    columns = sorted({x for _, x in boxes}, reverse=True)
    return {f"{name}@{columns.index(x)}" if time else name: extent for (name, x), extent in boxes.items()}


def _nearest(boxes, point):
    def away(box):
        x, y = (max(low - at, at - high, 0) for low, at, high in zip(box.min, point, box.max, strict=True))
        return np.hypot(x, y)

    return min(boxes, key=lambda name: away(boxes[name]))


def _any_at(end, points, time):
    """Whether a mark is at the end of a line: in its direction, and at most the length of a mark away.

    Lines arrive from above or below, over time from the side.
    """
    apart = [np.abs(np.asarray(point) - end) for point in points]
    return any(one[int(time)] < 0.01 and one.max() < 0.13 for one in apart)


def cells(axes):
    """The marks of a matrix as {label: {(row's name, column's name), ...}}, white dots as "circle"."""
    return {
        str(marks.get_label()): {
            (named(axes.yaxis, y), named(axes.xaxis, x)) for x, y in np.asarray(marks.get_offsets()).tolist()
        }
        for marks in axes.collections
    }


def named(axis, place):
    """Return the label of the tick at `place`, or its number if there is no tick."""
    ticks = dict(zip(np.round(axis.get_ticklocs(), 6).tolist(), axis.get_ticklabels(), strict=True))
    return ticks[place].get_text() if place in ticks else place


def shown(axes):
    """The cells of a matrix that are not empty, as {(row's name, column's name): (value, colour)}."""
    (image,) = axes.images
    values = np.asarray(image.get_array())
    assert image.origin == "upper"
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "row 0 is at the top"
    assert axes.get_xlim()[0] < axes.get_xlim()[1]
    return {
        (named(axes.yaxis, row), named(axes.xaxis, column)): (float(values[row, column]), colour_of(image, row, column))
        for row, column in np.argwhere(values).tolist()
    }


def colour_of(image, row, column):
    """ "blue" or "red": the dominant colour of the cell."""
    red, _, blue, _ = image.cmap(image.norm(np.asarray(image.get_array())))[row, column]
    return "blue" if blue > red else "red"


def described(figure):
    """Every artist of a figure in a line of text, positions and sizes rounded."""
    found = [f"figure {_numbers(figure.get_size_inches())}"]
    found += [f"text {_numbers(text.get_position())} {text.get_text()!r}" for text in figure.texts if text.get_text()]
    for axes in figure.axes:
        found.append(f"axes {axes.get_title() or axes.get_title('left')!r} at {_numbers(axes.get_position().bounds)}")
        if axes.axison:
            for which, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
                ticks = [one.get_text() for one in axis.get_ticklabels()] if axes.images or axes.collections else []
                limits = _numbers(axis.get_view_interval())
                found.append(
                    f"  {which} {axis.get_label_text()!r} {axis.get_scale()} {limits} {' '.join(ticks)}".rstrip()
                )
        for image in axes.images:
            found += [f"  image {image.get_cmap().name} {_numbers(image.get_clim())}"]
            found += [f"    {_numbers(row)}" for row in np.asarray(image.get_array())]
        for line in axes.lines:
            look = f"{to_hex(line.get_color())} {line.get_linestyle()} {line.get_linewidth():g} {line.get_marker()!r}"
            found.append(
                f"  line {line.get_label()} {look} {_numbers(line.get_xdata())}: {_numbers(line.get_ydata(), 6)}"
            )
        found += [_marks(marks) for marks in axes.collections]
        found += [_patch(patch) for patch in axes.patches]
        found += [
            f"  text {_numbers(text.get_position())} {text.get_text()!r}" for text in axes.texts if text.get_text()
        ]
        found += _legend(axes.get_legend())
    for legend in figure.legends:
        found += _legend(legend)
    return "\n".join(found) + "\n"


def _marks(marks):
    colours = [to_hex(one) for one in (*marks.get_facecolor(), *marks.get_edgecolor())]
    sizes = (
        f"{_numbers(marks.get_sizes())} {_numbers(marks.get_linewidths())} {len(marks.get_paths()[0].vertices)} corners"
    )
    return f"  marks {marks.get_label()} {colours} {sizes}: {[_numbers(at) for at in np.asarray(marks.get_offsets())]}"


def _patch(patch):
    colours = f"{to_hex(patch.get_facecolor())} {to_hex(patch.get_edgecolor())}"
    look = f"{colours} {patch.get_linewidth():.4g} {patch.get_linestyle()}"
    if isinstance(patch, FancyBboxPatch):
        corner = _numbers((patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height()))
        return f"  box {type(patch.get_boxstyle()).__name__} {look} {corner}"
    if isinstance(patch, Circle):
        return f"  circle {look} {_numbers((*patch.center, patch.radius), 3)}"
    return f"  {type(patch).__name__} {look} {[_numbers(at) for at in patch.get_path().vertices]}"


def _legend(legend):
    if legend is None:
        return []
    return [
        f"  legend {text.get_text()!r} {_look(handle)}"
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)
    ]


def _look(handle):
    get = getattr(handle, "get_color", getattr(handle, "get_facecolor", None))
    return (
        f"{np.atleast_1d(get())}" if isinstance(get(), str) else " ".join(to_hex(one) for one in np.atleast_2d(get()))
    )


def _numbers(values, digits=2):
    return "(" + ", ".join(f"{round(float(value), digits) + 0.0:g}" for value in np.ravel(values)) + ")"
