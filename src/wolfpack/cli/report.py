"""One HTML page of all experiments, with pictures inside: nothing is fetched."""

import base64
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from wolfpack.files.replace import replacing

Record = dict[str, Any]

BADGES = {
    "holds": "good",
    "holds with a remark": "fair",
    "does not hold": "poor",
    "not judged here": "none",
}
PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>AP-BCFW, reproduced with wolfpack</title>
<style>
:root { --ink: #1c2024; --soft: #5b6470; --line: #dfe3e8; --wash: #f6f7f9;
  --good: #00664b; --fair: #7a4b00; --poor: #9c2f00; --none: #4a5361; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial,
  sans-serif; }
header { background: #10263b; color: #fff; padding: 3rem 0 2.5rem; }
header > div, main, footer { width: min(58rem, 100% - 2.5rem); margin: 0 auto; }
header h1 { margin: 0 0 .6rem; font-size: clamp(1.5rem, 4vw, 2.2rem);
  line-height: 1.2; }
header p { margin: .4rem 0; color: #cfdbe6; max-width: 46rem; }
.tally { display: flex; flex-wrap: wrap; gap: .6rem; margin-top: 1.4rem; }
.tally span { background: rgba(255, 255, 255, .1); border-radius: .5rem;
  padding: .45rem .9rem; }
.tally b { font-size: 1.25rem; margin-right: .35rem; }
main { padding: 1.5rem 0 3rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .55rem .7rem .55rem 0;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; font-size: .8rem; }
a { color: #0b5cad; text-decoration: none; }
a:hover { text-decoration: underline; }
section { padding: 2.2rem 0 1.6rem; border-bottom: 1px solid var(--line); }
section:last-of-type { border: 0; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 .7rem; display: flex; gap: .8rem;
  flex-wrap: wrap; align-items: center; }
.badge { display: inline-block; white-space: nowrap; border-radius: 1rem;
  font-weight: 600; font-size: .78rem; padding: .12rem .7rem; border: 1px solid; }
.good { color: var(--good); background: #e3f5ee; border-color: #a9dcc9; }
.fair { color: var(--fair); background: #fdf3dc; border-color: #eccf91; }
.poor { color: var(--poor); background: #fde9e0; border-color: #f0b89f; }
.none { color: var(--none); background: #eef1f4; border-color: #cdd4dc; }
blockquote { margin: 0 0 1rem; padding: .1rem 0 .1rem 1rem; color: #39424d;
  border-left: 3px solid #9fb6cc; }
figure { margin: 1.1rem 0; padding: .8rem; border: 1px solid var(--line);
  border-radius: .6rem; text-align: center; }
figure img { max-width: 100%; height: auto; }
ul { margin: -.4rem 0 1rem; padding-left: 1.3rem; }
p.why { background: var(--wash); border-radius: .5rem; padding: .7rem 1rem; }
.facts { color: var(--soft); font-size: .85rem; }
code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  background: var(--wash); padding: .1em .35em; border-radius: .3em; }
.note { background: #fff4d6; border: 1px solid #ecd9a0; border-radius: .5rem;
  padding: .7rem 1rem; color: #5a4300; }
footer { padding: 0 0 3rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 42rem) { th:nth-child(2), td:nth-child(2) { display: none; } }
@media print { header { background: none; color: #000; } header p { color: #333; }
  section { break-inside: avoid; } }
</style>
</head>
<body>
<header><div>
<h1>Asynchronous parallel block-coordinate Frank&#8209;Wolfe, reproduced</h1>
<p>Every figure and claim of Wang, Sadhanala, Dai, Neiswanger, Sra and Xing,
“Parallel and Distributed Block-Coordinate Frank-Wolfe Algorithms” (ICML 2016), measured
again with wolfpack, next to what the paper says.</p>
<div class="tally">$tally</div>
</div></header>
<main>
$note
<div class="scroll"><table>
<thead><tr><th>experiment</th><th>the paper's claim</th><th>verdict</th></tr></thead>
<tbody>
$summary
</tbody></table></div>
$sections
</main>
<footer>Made by <code>wolfpack reproduce</code> from the CSV files beside it; nothing on
this page is fetched from elsewhere.</footer>
</body>
</html>
""")
SECTION = Template("""<section id="$name">
<h2>$title <span class="badge $badge">$verdict</span></h2>
<blockquote>$claim</blockquote>
<figure><img alt="$title" src="data:image/svg+xml;base64,$picture"></figure>
$measured
$why
<p class="facts">$setting<br>
$machine · $seconds s · <code>$command</code></p>
</section>
""")
FAST = (
    '<p class="note">This report was made with <code>--fast</code>: small settings and '
    "few seeds, to see that everything runs. Its verdicts are not those of the full "
    "experiments.</p>"
)


def write(records: Sequence[Record], out: Path) -> Path:
    """Write report.html into `out`, where the pictures are; return its path."""
    path = out / "report.html"
    text = page(records, out)
    with replacing(path) as file:
        file.write(text.encode())
    return path


def page(records: Sequence[Record], out: Path) -> str:
    """Return the whole page."""
    counts = Counter(record["verdict"] for record in records)
    tally = "".join(
        f"<span><b>{counts[verdict]}</b>{verdict}</span>"
        for verdict in BADGES
        if counts[verdict]
    )
    return PAGE.substitute(
        tally=tally,
        note=FAST if any(record["fast"] for record in records) else "",
        summary="\n".join(_summary(record) for record in records),
        sections="\n".join(_section(record, out) for record in records),
    )


def _summary(record: Record) -> str:
    return (
        f'<tr><td><a href="#{record["name"]}">{escape(record["title"])}</a></td>'
        f"<td>{escape(record['claim'])}</td><td>{_badge(record['verdict'])}</td></tr>"
    )


def _badge(verdict: str) -> str:
    return f'<span class="badge {BADGES[verdict]}">{verdict}</span>'


def _section(record: Record, out: Path) -> str:
    picture = (out / f"{record['name']}.svg").read_bytes()
    words = ("name", "title", "claim", "verdict", "setting", "command")
    why = f'<p class="why">{escape(record["why"])}</p>' if record["why"] else ""
    return SECTION.substitute(
        {word: _code(escape(record[word])) for word in words},
        badge=BADGES[record["verdict"]],
        measured=_code(_listed(escape(record["measured"]))),
        picture=base64.b64encode(picture).decode(),
        why=_code(why),
        machine=escape(_machine(record["machine"])),
        seconds=f"{record['seconds']:.0f}",
    )


def _listed(text: str) -> str:
    """Return a paragraph; what has several parts becomes a sentence and a list."""
    head, _, tail = text.partition(". ")
    *parts, last = tail.split("; ")
    if len(parts) < 2:
        return f"<p><strong>Measured.</strong> {text}</p>"
    last, _, rest = last.partition(". ")
    items = "".join(f"<li>{part.rstrip('.')}</li>" for part in (*parts, last))
    after = f"<p>{rest}</p>" if rest else ""
    return f"<p><strong>Measured.</strong> {head}:</p><ul>{items}</ul>{after}"


def _code(text: str) -> str:
    """Turn `words` between backticks into code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return text
    return "".join(
        f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(parts)
    )


def _machine(facts: Record) -> str:
    return (
        f"{facts['cores']} cores, {facts['cpu']}, {facts['system']}, Python "
        f"{facts['python']}, Numba {facts['numba']}, NumPy {facts['numpy']}"
    )
