"""Plots as SVG, readable on light and on dark pages: no background, text in a grey that contrasts with both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

GREY = "#808080"
"""Of text and axes: 3.9 : 1 against white, 5.3 : 1 against black."""

COLOURS = ("#0a84d0", "#e08a00", "#00a078", "#d55e00", "#c060a0", "#808080", "#8a7ad0", "#a09000")
"""Told apart by people who see few colours, too (after Okabe and Ito), none too light or too dark for either page."""

MARKERS = "osD^vPX*"

SIZE = (7.2, 4.2)
"""Inches."""

Spread = tuple[float, float, float]
"""Value, lowest, highest."""


def lines(
    path: Path,
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    axes: tuple[str, str],
    *,
    logarithmic: bool = True,
) -> None:
    """Draw lines through points (x, y).

    Args:
        path: where the SVG goes.
        title: above the plot.
        series: name → points.
        axes: names of x and y.
        logarithmic: whether both axes are.
    """
    figure, axis = _figure(title)
    for number, (name, points) in enumerate(series.items()):
        xs, ys = zip(*points, strict=True)
        style = {"marker": MARKERS[number % len(MARKERS)], "markersize": 4} if len(points) < 12 else {}
        axis.plot(xs, ys, color=COLOURS[number % len(COLOURS)], label=name, linewidth=1.5, **style)
    if logarithmic:
        axis.set_xscale("log")
        axis.set_yscale("log")
        every = sorted({x for points in series.values() for x, _ in points})
        axis.set_xticks(every, [f"{x:,.0f}" for x in every], rotation=20)
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    else:
        axis.set_ylim(bottom=0)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.set_xlabel(axes[0], color=GREY)
    axis.set_ylabel(axes[1], color=GREY)
    axis.grid(color=GREY, alpha=0.25, linewidth=0.5)
    if len(series) > 1:
        axis.legend(fontsize=8, frameon=False, labelcolor=GREY, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _save(figure, path)


def points(path: Path, title: str, places: Mapping[str, tuple[float, float]], axes: tuple[str, str]) -> None:
    """Draw one named point each; x is logarithmic, y begins at 0.

    Args:
        path: where the SVG goes.
        title: above the plot.
        places: name → (x, y).
        axes: names of x and y.
    """
    figure, axis = _figure(title)
    for number, (name, (x, y)) in enumerate(places.items()):
        axis.plot([x], [y], MARKERS[number % len(MARKERS)], color=COLOURS[number % len(COLOURS)], markersize=8)
        axis.annotate(name, (x, y), xytext=(7, 5), textcoords="offset points", color=GREY, fontsize=8)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.margins(x=0.25)
    axis.set_ylim(0, 1.15 * max(y for _, y in places.values()))
    axis.set_xlabel(axes[0], color=GREY)
    axis.set_ylabel(axes[1], color=GREY)
    axis.grid(color=GREY, alpha=0.25, linewidth=0.5)
    _save(figure, path)


def bars(
    path: Path, title: str, groups: Mapping[str, Mapping[str, Spread]], unit: str, *, logarithmic: bool = False
) -> None:
    """Draw bars from left to right, with whiskers from the lowest to the highest.

    Args:
        path: where the SVG goes.
        title: above the plot.
        groups: row → kind → value with its spread; one kind is drawn without a legend.
        unit: of the values.
        logarithmic: whether their axis is.
    """
    figure, axis = _figure(title)
    kinds = list(dict.fromkeys(kind for row in groups.values() for kind in row))
    height = 0.8 / max(len(kinds), 1)
    for number, kind in enumerate(kinds):
        rows = [(place, row[kind]) for place, row in enumerate(groups.values()) if kind in row]
        places = [place + (number - (len(kinds) - 1) / 2) * height for place, _ in rows]
        values = [value for _, (value, _, _) in rows]
        errors = [[max(0.0, v - low) for _, (v, low, _) in rows], [max(0.0, high - v) for _, (v, _, high) in rows]]
        drawn = axis.barh(
            places, values, height * 0.9, xerr=errors, color=COLOURS[number % len(COLOURS)], label=kind,
            error_kw={"ecolor": GREY, "elinewidth": 1, "capsize": 2},
        )  # fmt: skip
        axis.bar_label(
            drawn, [f" {value:,.3g}" if value < 1000 else f" {value:,.0f}" for value in values], color=GREY, fontsize=8
        )
    axis.set_yticks(range(len(groups)), list(groups), color=GREY)
    axis.invert_yaxis()
    axis.margins(x=0.15)
    if logarithmic:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_xlabel(unit, color=GREY)
    axis.grid(axis="x", color=GREY, alpha=0.25, linewidth=0.5)
    if len(kinds) > 1:
        axis.legend(fontsize=8, frameon=False, labelcolor=GREY)
    _save(figure, path)


def _figure(title: str):
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Text stays text, and the same figures give the same file.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kbhub", "font.family": "sans-serif", "font.size": 9})
    figure = Figure(figsize=SIZE, layout="constrained")
    axis = figure.subplots()
    axis.set_title(title, color=GREY, fontsize=10)
    axis.tick_params(colors=GREY, which="both")
    for side, spine in axis.spines.items():
        spine.set_color(GREY)
        spine.set_visible(side in ("left", "bottom"))
    axis.patch.set_visible(False)
    return figure, axis


def _save(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    lines_of = path.read_text("utf-8").splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines_of) + "\n", "utf-8", newline="\n")
