"""The process in which faults are injected; `soak.py` starts it and watches it.

A line of JSON is a job, and a line of JSON is the answer. What a fault does to this
process (it dies, it hangs) is for `soak.py` to see.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import soak_disk as disk
import soak_path  # noqa: F401 the modules imported later need it

FREE_SECONDS = 20.0  # in which threads and processes of a run must be gone


def main():
    """Answer jobs until there are none."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True, chain=False)
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever is printed goes to the log
    scratch = Path(sys.argv[1])
    small = scratch / "small"
    small = small if disk.mount_small(small) else None
    optima = json.loads((scratch / "optima.json").read_text())
    child = Child(small, optima, sys.argv[2])
    for line in sys.stdin:
        channel.write(json.dumps(child.answer(**json.loads(line))) + "\n")
    child.end()


class Child:
    """Plays injections; `lie` makes it cheat, to see whether that is noticed."""

    def __init__(self, small_disk, optima, lie):
        self.small_disk, self.optima, self.lie = small_disk, optima, lie
        self.ray = None

    def answer(self, plan, folder, phase):
        """Play one injection; say what came of it, or what did not hold."""
        begin = time.monotonic()
        try:
            found = {"word": self.play(plan, Path(folder), phase)}
        except Exception as error:
            found = {
                "broken": f"{type(error).__name__}: {error}",
                "kind": getattr(error, "kind", "wrong"),
                "trace": traceback.format_exc(),
            }
        return found | {"seconds": time.monotonic() - begin}

    def play(self, plan, folder, phase):
        """Inject the fault, and check all that must hold."""
        import soak_checks as checks
        import soak_faults as faults
        import soak_plans as plans
        import soak_problems as problems

        plan = plans.Plan(*plan)
        if plan.place == "ray" or (plan.place == "own" and phase == "after"):
            self.begin_ray()
        problems.make(plan.problem)
        optimum = self.optima[plan.problem]
        scene = faults.Scene(plan, folder, optimum, self.small_disk)
        threads = set(threading.enumerate())
        outcome = self.fault(plan, phase)(scene)
        outcome = self.cheat(outcome)
        known, result = scene.known, outcome.result
        if result is not None:
            checks.check_result(known, optimum, result)
        elif outcome.state is not None and outcome.has_v:
            checks.check_state(known, outcome.state)
        elif outcome.state is not None:
            checks.check_point(known, outcome.state)
        else:
            none = ("KeyboardInterrupt", "died early")
            checks.require(outcome.word in none, f"{outcome.word} without a state")
        file = folder if scene.rng.random() < 0.5 else None
        checks.check_resume(known, optimum, outcome.state, scene.resume, file)
        self.look_around(plan, threads)
        return outcome.word

    def fault(self, plan, phase):
        """Return the function that plays it."""
        import soak_faults as faults

        if phase == "after":
            return faults.after_death
        here = {
            "signal": faults.ctrl_c,
            "raising": faults.raising,
            "nan": faults.nan,
            "infeasible": faults.infeasible,
            "slow": faults.slow,
            "disk": faults.full_disk,
            "damage": faults.damaged_state,
            "kill": faults.dying,
            "cache": faults.fresh,
            "cache disk": faults.fresh,
        }
        if plan.engine == "ray":
            import soak_ray

            here |= {
                "worker": soak_ray.killed_worker,
                "server": soak_ray.killed_server,
                "checkpoint": soak_ray.bad_checkpoint,
                "disk": soak_ray.full_disk,
                "head": soak_ray.killed_head,
            }
        return here[plan.fault]

    def cheat(self, outcome):
        """Do what must be noticed, if asked to."""
        import dataclasses

        if self.lie == "v" and outcome.state is not None:
            outcome.state.shared[...] += 0.01
        if self.lie == "gap" and outcome.result is not None:
            least = outcome.result.objective - 1e-12
            wrong = dataclasses.replace(
                outcome.result, gap=1e-12, lower_bound=least, trace=[]
            )
            outcome = outcome._replace(result=wrong)
        if self.lie == "hang":
            time.sleep(1e6)
        if self.lie == "crash":
            signal.raise_signal(signal.SIGSEGV)
        if self.lie == "leave":
            subprocess.Popen(["sleep", "600"], start_new_session=True)
        return outcome

    def begin_ray(self):
        """Start Ray, once."""
        if self.ray is None:
            import ray

            from wolfpack.engines.cluster.connect import connect

            connect(ray, None, 2)
            self.ray = ray

    def look_around(self, plan, threads):
        """No thread of a run is left, and no process but Ray's own."""
        from soak_checks import Left

        end = time.monotonic() + FREE_SECONDS
        while left := self.left(plan, threads):
            if time.monotonic() > end:
                raise Left(f"these are left: {left}")
            time.sleep(0.02)

    def left(self, plan, threads):
        """Return what a run has left behind so far."""
        from played import children

        below = [name.replace("\0", " ") for name in children(os.getpid()).values()]
        if plan.engine == "ray":
            return [name for name in below if "Actor" in name]
        new = [t.name for t in threading.enumerate() if t not in threads]
        return below + new

    def end(self):
        """Stop Ray, if it was started."""
        if self.ray is not None:
            self.ray.shutdown()


if __name__ == "__main__":
    main()
