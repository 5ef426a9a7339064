"""How a notebook shows a `Result`: why it stopped, the certificate, the curve.

Plain HTML and SVG in the colours of the page, without scripts or other files.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from wolfpack.result import in_words

if TYPE_CHECKING:
    from wolfpack.result import Result, TraceRow

WIDTH, HEIGHT = 320, 90  # of the curve
BLUE, GREEN, ORANGE = "#0072B2", "#009E73", "#D55E00"


def to_html(result: "Result") -> str:
    """Return a result as HTML."""
    colour = GREEN if result.converged else ORANGE
    facts = f"{result.epochs:g} passes, {result.n_oracle_calls} oracle calls, "
    facts += f"{result.wall_seconds:.3g} s"
    if result.n_workers > 1:
        facts += f", {result.n_workers} workers"
    return (
        f'<div style="max-width:{WIDTH}px;line-height:1.4">'
        f'<b style="color:{colour}">{escape(result.status.name)}</b> '
        f"{escape(result.status.value)}"
        f"<div>The minimum lies between <b>{_number(result.lower_bound)}</b> and "
        f"<b>{_number(result.objective)}</b>: gap {result.gap:.2e}, relative "
        f"{result.relative_gap:.2e}, {in_words(result.gap_over_primal)}.</div>"
        f"{bar(result)}{curve(result.trace)}"
        f'<small style="opacity:.7">{escape(facts)}</small></div>'
    )


def _number(value: float) -> str:
    return escape(f"{value:.8g}")


def bar(result: "Result") -> str:
    """Return the bounds of the minimum within those of the whole run."""
    ends = [row.lower_bound for row in result.trace] + [result.lower_bound]
    tops = [row.objective for row in result.trace] + [result.objective]
    low, high = min(ends), max(tops)
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        return ""
    left = 100 * (result.lower_bound - low) / (high - low)
    wide = max(100 * result.gap / (high - low), 0.7)  # so that it is always seen
    left = min(max(left, 0.0), 100 - wide)
    return (
        '<div style="position:relative;height:8px;margin:4px 0;border-radius:4px;'
        'background:rgba(128,128,128,.25)" title="the bounds of the minimum: at the '
        'start the whole bar, now the dark part">'
        f'<div style="position:absolute;left:{left:.2f}%;width:{wide:.2f}%;'
        f'height:8px;border-radius:4px;background:{BLUE}"></div></div>'
    )


def curve(trace: "Sequence[TraceRow]") -> str:
    """Return the gap against passes, on a logarithmic scale."""
    points = [(row.epoch, row.gap) for row in trace]
    points = [(x, math.log10(y)) for x, y in points if 0 < y < math.inf]
    if len(points) < 2:
        return ""
    (left, _), (right, _) = points[0], points[-1]
    low, high = min(y for _, y in points), max(y for _, y in points)
    wide, tall = max(right - left, 1e-300), max(high - low, 1e-300)
    places = " ".join(
        f"{4 + (WIDTH - 8) * (x - left) / wide:.1f},"
        f"{16 + (HEIGHT - 36) * (high - y) / tall:.1f}"
        for x, y in points
    )
    text = 'font-size="10" fill="currentColor"'
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" '
        'aria-label="duality gap against passes">'
        f'<polyline fill="none" stroke="{BLUE}" stroke-width="1.5" points="{places}"/>'
        f'<text x="4" y="10" {text}>gap {10**high:.1e}</text>'
        f'<text x="{WIDTH - 4}" y="{HEIGHT - 4}" text-anchor="end" {text}>'
        f"{10**low:.1e} after {right:g} passes</text></svg>"
    )
