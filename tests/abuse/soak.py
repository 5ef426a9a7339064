"""Faults by chance, for as long as asked: `make soak ARGS="--seconds 600 --seed 0"`.

Every injection is a run of some engine on some problem in which something goes wrong.
Afterwards v = v0 + A x must hold, x must be feasible, the certificate must bracket the
optimum that an independent solver found, and the run must go on from its state to that
optimum. The first injection after which it does not ends the soak with exit code 1.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soak_path  # noqa: F401 the modules below need it
import soak_plans as plans
from rich.console import Console
from rich.live import Live
from soak_table import Tally, summary, table
from soak_watch import Child, Crash, Hang, damaged_cache

LIMITS = {"plain": 300.0, "ray": 400.0, "own": 400.0, "fresh": 400.0}
LINES = 40  # of a traceback, or of a log
KEEP = {"state.npz", "checkpoint.npz"}  # what a run may leave in its folder


class Soak:
    """The loop: draw a plan, have it played, judge what came back."""

    def __init__(self, scratch, lie, limit):
        self.scratch, self.lie = Path(scratch), lie
        self.limits = dict.fromkeys(LIMITS, limit) if limit else LIMITS
        self.children: dict[str, Child] = {}
        self.tally = Tally()
        optima = {name: _optimum(name) for name in plans.PROBLEMS}
        (self.scratch / "optima.json").write_text(json.dumps(optima))

    def play(self, plan):
        """Play one injection; return None, or the kind of failure and a sentence."""
        folder = self.scratch / plan.name
        folder.mkdir()
        begin = time.monotonic()
        try:
            answer = self._answer(plan, folder)
        except Hang as error:
            return self._note(plan, "hang", str(error))
        except Crash as error:
            return self._note(plan, "crash", str(error))
        if "broken" in answer:
            sentence = f"{answer['broken']}\n{answer['trace']}"
            return self._note(plan, answer["kind"], sentence)
        left = [path.name for path in folder.iterdir() if path.name not in KEEP]
        if left and plan.fault != "kill":
            return self._note(plan, "leftover file", str(left))
        shutil.rmtree(folder)
        self.tally.add(plan, answer["word"], time.monotonic() - begin)
        return None

    def _note(self, plan, kind, sentence):
        for place in {plan.place, "ray"} if plan.place == "own" else {plan.place}:
            if child := self.children.pop(place, None):
                child.bury()
        self.tally.add(plan, kind, 0.0)
        self.tally.failures.append((plan, kind, sentence))
        return kind, sentence

    def _answer(self, plan, folder):
        place, limit = plan.place, self.limits[plan.place]
        if place == "fresh":
            return self._answer_fresh(plan, folder)
        if plan.fault == "head":  # which ends Ray in that process
            answer = self._child(place).play(plan, folder, "go", limit)
            self._end(self.children.pop(place))
            return answer
        if plan.fault != "kill":
            return self._child(place).play(plan, folder, "go", limit)
        try:
            return self._child(place).play(plan, folder, "go", limit)
        except Crash as error:
            if "exit code -11" in str(error) or "exit code -6" in str(error):
                raise
        self._wait_for(self.children.pop(place))
        place = "ray" if place == "own" else place
        return self._child(place).play(plan, folder, "after", limit)

    def _answer_fresh(self, plan, folder):
        limit, scratch = self.limits["fresh"], self.scratch
        if plan.fault == "cache disk":
            cache, note = scratch / "small", "full"
        else:
            rng = np.random.default_rng(plan.seed)

            def fill(cache):
                other = plan._replace(fault="cache")
                self._once(other, folder, cache, limit)

            cache, note = damaged_cache(plan, scratch, fill, rng)
        answer = self._once(plan, folder, cache, limit)
        if "broken" in answer:
            answer["broken"] += f" ({note})"
        return answer

    def _once(self, plan, folder, cache, limit):
        """Play in a process of its own, with this cache."""
        environment = {"WOLFPACK_CACHE": str(cache)}
        child = self.children["fresh"] = Child(self.scratch, self.lie, environment)
        answer = child.play(plan, folder, "go", limit)
        self._end(self.children.pop("fresh"))
        return answer

    def _child(self, place):
        if place not in self.children:
            self.children[place] = Child(self.scratch, self.lie)
        return self.children[place]

    def _wait_for(self, child):
        """Wait until no process below a child that died is left."""
        processes, _ = child.end()
        self.tally.leave("processes", [p for p in processes if "exit code" not in p])

    def _end(self, child):
        processes, files = child.end()
        self.tally.leave("processes", processes)
        self.tally.leave("files", files)

    def close(self):
        """End all children, and count what they leave."""
        while self.children:
            self._end(self.children.popitem()[1])


def _optimum(name):
    import soak_problems

    return soak_problems.optimum(name)


def planned(options):
    """Yield the plans that the options ask for."""
    if options.only:
        seed, number = map(int, options.only.split("-"))
        yield plans.draw(seed, number)
        return
    number, end = 0, time.monotonic() + options.seconds
    while time.monotonic() < end:
        plan = plans.draw(options.seed, number)
        number += 1
        asked = [
            (options.engines, plan.engine),
            (options.problems, plan.problem),
            (options.faults, plan.fault),
        ]
        if all(not names or name in names.split(",") for names, name in asked):
            yield plan


def parse(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="play one injection again, such as 0-17")
    parser.add_argument("--engines", help=f"some of {','.join(plans.ENGINES)}")
    parser.add_argument("--problems", help=f"some of {','.join(plans.PROBLEMS)}")
    parser.add_argument("--faults", help=f"some of {','.join(plans.FAULTS)}")
    parser.add_argument("--keep-going", action="store_true", help="after a failure too")
    parser.add_argument("--verbose", action="store_true", help="a line an injection")
    parser.add_argument("--limit", type=float, help="seconds until it is a hang")
    parser.add_argument("--lie", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run until the time is over; return the exit code."""
    options = parse(arguments)
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200)
    begin = time.monotonic()
    shown = console.is_terminal and not options.verbose
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        soak = Soak(scratch, options.lie, options.limit)
        live = Live(console=console, refresh_per_second=2) if shown else None
        try:
            if live:
                live.start()
            _loop(soak, options, console, live)
        finally:
            if live:
                live.stop()
            soak.close()
    tally = soak.tally
    console.print(table(tally))
    console.print(summary(tally, options.seed, time.monotonic() - begin))
    return 1 if tally.failures or tally.left["processes"] or tally.left["files"] else 0


def _loop(soak, options, console, live):
    for plan in planned(options):
        if options.verbose:
            what = f"{plan.engine}, {plan.problem}, {plan.fault}"
            console.print(f"{plan.name:>8}  {what}", end="  ", markup=False)
        failed = soak.play(plan)
        if options.verbose:
            console.print(failed[0] if failed else soak.tally.last, markup=False)
        if live:
            live.update(table(soak.tally))
        if failed:
            _tell(console, plan, *failed)
            if not options.keep_going:
                return


def _tell(console, plan, kind, sentence):
    lines = sentence.splitlines()
    shown = [lines[0], *lines[-LINES:]] if len(lines) > LINES else lines
    shown[0] = f"{plan.engine}, {plan.problem}, {plan.fault}: {shown[0]}"
    what = "\n".join(shown)
    console.print(f"\n{kind}: {what}", markup=False, highlight=False)
    again = f'make soak ARGS="--only {plan.name}"'
    console.print(f"seed {plan.name}; again: {again}\n", markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
