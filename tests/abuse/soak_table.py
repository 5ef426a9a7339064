"""What is counted, and how it is shown."""

from collections import Counter

import soak_plans as plans
from rich import box
from rich.table import Table


class Tally:
    """Counts of injections and of what came of them."""

    def __init__(self):
        self.injections, self.outcomes = Counter(), Counter()
        self.failures, self.last = [], ""
        self.left = {"processes": [], "files": []}

    def add(self, plan, word, seconds):
        """Count one injection."""
        self.injections[plan.fault, plan.engine, plan.problem] += 1
        self.outcomes[plan.fault, word] += 1
        self.last = f"{word} ({seconds:.1f} s)"

    def leave(self, what, names):
        """Count what was left behind."""
        self.left[what] += names

    def count(self, **where):
        """Return how many injections were of a fault, an engine or a problem."""
        fields = ("fault", "engine", "problem")
        return sum(
            number
            for key, number in self.injections.items()
            if all(key[fields.index(name)] == where[name] for name in where)
        )


def table(tally):
    """Return injections by fault and engine, and what came of them, as Markdown."""
    engines = [name for name in plans.ENGINES if tally.count(engine=name)]
    shown = Table(box=box.MARKDOWN)
    shown.add_column("fault", no_wrap=True)
    for name in [*engines, "all"]:
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("what came", no_wrap=True)
    for fault in plans.FAULTS:
        if tally.count(fault=fault):
            counts = [tally.count(fault=fault, engine=name) for name in engines]
            words = _words(tally, fault)
            shown.add_row(fault, *map(str, [*counts, sum(counts)]), words)
    totals = [tally.count(engine=name) for name in engines]
    by_problem = [f"{name} {tally.count(problem=name)}" for name in plans.PROBLEMS]
    shown.add_row("all", *map(str, [*totals, tally.count()]), ", ".join(by_problem))
    return shown


def _words(tally, fault):
    counts = tally.outcomes.most_common()
    return ", ".join(f"{word} {n}" for (kind, word), n in counts if kind == fault)


def summary(tally, seed, seconds):
    """Return the last lines."""
    kinds = Counter(kind for _, kind, _ in tally.failures)
    counts = f"{kinds['wrong']} wrong, {kinds['hang']} hangs, {kinds['crash']} crashes"
    processes, files = tally.left["processes"], tally.left["files"]
    n_processes = len(processes) + kinds["leftover process"]
    n_files = len(files) + kinds["leftover file"]
    again = [plan.name for plan, _, _ in tally.failures]
    return "\n".join(
        [
            f"{tally.count()} injections in {seconds:.0f} s with seed {seed}: "
            f"{counts}, {n_processes} leftover processes, "
            f"{n_files} leftover files",
            *(f"left behind: {name}" for name in [*processes, *files]),
            *([f"seeds of failures: {' '.join(again)}"] if again else []),
        ]
    )
