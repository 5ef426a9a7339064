"""Group fused lasso on a long signal: seconds, passes and memory to relative gap 1e-6.

python benchmarks/fused_lasso.py [--n 1000000] [--d 4] [--segments 5000]
"""

import argparse
import resource
import time

import wolfpack


def peak_mb() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    """Solve once small, to load the loops, then once large."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--d", type=int, default=4)
    parser.add_argument("--segments", type=int, default=5000)
    options = parser.parse_args()
    small, _, _ = wolfpack.make_piecewise(n=100, d=options.d)
    wolfpack.GroupFusedLasso(alpha=1.0).fit(small)
    Y, _, _ = wolfpack.make_piecewise(
        n=options.n, d=options.d, n_segments=options.segments, noise=0.5
    )
    before = peak_mb()
    begin = time.perf_counter()
    model = wolfpack.GroupFusedLasso(alpha=1.0, tol=1e-6).fit(Y)
    spent = time.perf_counter() - begin
    print(
        f"n = {options.n}, d = {options.d}: {model.status_.name} after {model.n_iter_} "
        f"passes, {spent:.1f} s\nobjective between {model.dual_objective_:.6f} and "
        f"{model.objective_:.6f}\ndata {Y.nbytes / 1e6:.0f} MB, peak memory "
        f"{peak_mb():.0f} MB, of which {before:.0f} MB before fit"
    )


if __name__ == "__main__":
    main()
