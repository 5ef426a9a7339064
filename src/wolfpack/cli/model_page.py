"""A fitted model in one page of HTML: nothing is fetched, and there are no scripts."""

import platform
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import version
from string import Template
from typing import Any

import numpy as np

from wolfpack.cli.jobs import Job
from wolfpack.run.result_html import bar, curve

SHOWN = 8  # features for a label, and as many against it
RED, BLUE = "213, 94, 0", "0, 114, 178"
BOUNDS = "Where the optimum lies: grey at the start, blue at the end."
PACKAGES = ("wolfpack", "numpy", "scipy", "numba", "scikit-learn")
PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { margin: 0 auto; width: min(64rem, 100% - 2.5rem); color: #1c2024;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
h1 { margin: 2rem 0 .3rem; font-size: 1.7rem; }
h2 { margin: 2.2rem 0 .6rem; font-size: 1.2rem; }
h3 { margin: 0 0 .3rem; font-size: 1rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; }
.soft, footer { color: #5b6470; font-size: .9rem; }
.scroll { overflow-x: auto; }
.narrow { max-width: 320px; }
table { border-collapse: collapse; font-size: .88rem; }
th, td { padding: .2rem .6rem .2rem 0; text-align: left; font-weight: normal;
  border-bottom: 1px solid #dfe3e8; }
thead th { color: #5b6470; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.cards { display: grid; gap: 1.2rem;
  grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); }
.cards table { width: 100%; table-layout: fixed; }
.cards td { overflow-wrap: anywhere; }
.cards td.n { width: 4.5rem; }
.heat td { min-width: 2rem; padding: .2rem .25rem; border: 1px solid #fff;
  text-align: right; font-size: .7rem; font-variant-numeric: tabular-nums; }
.heat th { white-space: nowrap; }
.heat tbody th { position: sticky; left: 0; background: #fff; }
.heat thead th { writing-mode: vertical-rl; transform: rotate(180deg);
  padding: .5rem .2rem .3rem; border: 0; }
pre { background: #f6f7f9; padding: .7rem 1rem; overflow-x: auto; font-size: .85rem; }
footer { margin: 2.5rem 0; }
</style>
</head>
<body>
<h1>$title</h1>
<p class="soft">$about</p>
$sections
<footer>$footer</footer>
</body>
</html>
""")


class Page:
    """What the page shows of a job that is done.

    `labels` are what the classes are called, `names` what the features are.
    """

    def __init__(
        self, job: Job, title: str, labels: Sequence[str], names: Sequence[str]
    ) -> None:
        self.job, self.model, self.title = job, job.model, title
        self.labels, self.names = labels, names

    def render(
        self,
        report: dict[str, Any],
        part: str = "",
        truth: np.ndarray | None = None,
        found: np.ndarray | None = None,
    ) -> str:
        """Return the page; `truth` and `found` are the labels of one part."""
        kind = type(self.model).__name__
        alpha = getattr(self.model, "alpha_", self.model.alpha)
        about = self.job.describe({"alpha": alpha})
        sections = {
            "Certificate": self._certificate(report),
            "Scores": _scores(report) + _notes(report),
            f"Scores of each label in {part}": self._by_label(truth, found),
            "Features for and against each label": self._features(),
            "From one label (row) to the next (column)": self._transitions(),
            "Template": self._template(),
            "Parameters": self._parameters(),
        }
        versions = (f"{name} {version(name)}" for name in PACKAGES)
        footer = f"Made by `wolfpack fit --report`: {', '.join(versions)}, Python "
        return PAGE.substitute(
            title=escape(f"{kind} of {self.title}"),
            about=escape(about),
            sections="\n".join(
                f"<section>\n<h2>{escape(name)}</h2>\n{text}\n</section>"
                for name, text in sections.items()
                if text
            ),
            footer=escape(f"{footer}{platform.python_version()}."),
        )

    def _certificate(self, report: dict[str, Any]) -> str:
        lines = self.job.certificate(report).splitlines()
        text = "".join(f"<p>{escape(line)}</p>" for line in lines)
        result = self.model.result_
        picture = bar(result)
        if picture:
            picture += f'<p class="soft">{BOUNDS}</p>'
        return f'{text}<div class="narrow">{picture}{curve(result.trace)}</div>'

    def _by_label(self, truth: Any, found: Any) -> str:
        if truth is None:
            return ""
        from sklearn.metrics import precision_recall_fscore_support

        measure: Any = precision_recall_fscore_support
        labels = self.model.classes_
        numbers = measure(truth, found, labels=labels, zero_division=0.0)
        given = [str(label) for label in np.unique(found)]
        rows = (
            (label, *_rates(row, str(own) in given), str(row[3]))
            for label, own, *row in zip(
                self.labels, labels, *map(np.asarray, numbers), strict=True
            )
        )
        return _table(("label", "precision", "recall", "F1", "occurs"), rows)

    def _features(self) -> str:
        weights = self.model.coef_
        if len(weights) < len(self.labels):  # two classes: the difference of both
            weights = np.vstack([-weights, weights])
        cards = (
            f"<div><h3>{escape(label)}</h3>{self._card(row)}</div>"
            for label, row in zip(self.labels, weights, strict=True)
        )
        return f'<div class="cards">{"".join(cards)}</div>'

    def _card(self, weights: np.ndarray) -> str:
        order: list[int] = np.argsort(-weights, kind="stable").tolist()
        best = [k for k in order[:SHOWN] if weights[k] > 0]
        worst = [k for k in order[-SHOWN:] if weights[k] < 0]
        most = float(np.abs(weights).max())
        pairs = [(self.names[k], float(weights[k])) for k in [*best, *worst]]
        rows = (
            f'<tr><td>{escape(name)}</td><td class="n" style="{_shade(weight, most)}">'
            f"{_weight(weight, most)}</td></tr>"
            for name, weight in pairs
        )
        return f"<table><tbody>{''.join(rows)}</tbody></table>"

    def _transitions(self) -> str:
        """Return a table whose cells are the darker the larger their weight."""
        if not hasattr(self.model, "transitions_"):
            return ""
        model = self.model
        weights = np.vstack([model.first_, model.transitions_])
        weights = np.column_stack([weights, np.append(0.0, model.last_)])
        most = float(np.abs(weights).max())
        head = "".join(f"<th>{escape(one)}</th>" for one in [*self.labels, "(end)"])
        rows = []
        for label, row in zip(["(begin)", *self.labels], weights, strict=True):
            cells = (
                f'<td style="{_shade(w, most)}">{round(float(w), 2) + 0.0:.2f}</td>'
                for w in row
            )
            rows.append(f"<tr><th>{escape(label)}</th>{''.join(cells)}</tr>")
        return (
            f'<div class="scroll"><table class="heat"><thead><tr><th></th>{head}</tr>'
            f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
        )

    def _template(self) -> str:
        template = getattr(getattr(self.job, "reader", None), "template", None)
        return "" if template is None else f"<pre>{escape(template.text)}</pre>"

    def _parameters(self) -> str:
        params = self.model.get_params()
        del params["callback"]
        rows = ((name, repr(params[name])) for name in sorted(params))
        return _table(("parameter", "value"), rows)


def _rates(row: Sequence[Any], is_given: bool) -> Sequence[str]:
    """Return precision, recall and F1; a dash where there is nothing to divide by."""
    precision, recall, f1, occurs = row
    return (
        f"{precision:.4f}" if is_given else "-",
        f"{recall:.4f}" if occurs else "-",
        f"{f1:.4f}" if occurs or is_given else "-",
    )


def _weight(weight: float, most: float) -> str:
    """Return a weight with as many digits as the others of its table."""
    return f"{weight:+.3f}" if most >= 0.1 else f"{weight:+.2e}"


def _scores(report: dict[str, Any]) -> str:
    names = {"score": "right labels", "chunk_f1": "chunk F1"}
    parts = {"train": "training", "test": "test"}
    shown = [name for name in names if f"train_{name}" in report]
    rows = (
        (parts[part], *(f"{report[f'{part}_{name}']:.4f}" for name in shown))
        for part in parts
        if f"{part}_score" in report
    )
    return _table(("", *(names[name] for name in shown)), rows)


def _notes(report: dict[str, Any]) -> str:
    return f"<p>{escape(report['note'])}</p>" if "note" in report else ""


def _table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the first column is words, the others are numbers."""
    names = "".join(_cell("th", k, name) for k, name in enumerate(head))
    lines = (
        f"<tr>{''.join(_cell('td', k, cell) for k, cell in enumerate(row))}</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{names}</tr></thead><tbody>'
        f"{''.join(lines)}</tbody></table></div>"
    )


def _cell(tag: str, k: int, text: str) -> str:
    kind = ' class="n"' if k else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"


def _shade(weight: float, most: float) -> str:
    share = abs(float(weight)) / most if most > 0 else 0.0
    return f"background: rgba({RED if weight > 0 else BLUE}, {0.75 * share:.2f})"
