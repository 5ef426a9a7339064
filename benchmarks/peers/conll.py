"""CoNLL-2000 chunking from dicts: wolfpack beside sklearn-crfsuite (L-BFGS).

    python benchmarks/peers/conll.py                    # all sides, a few minutes
    python benchmarks/peers/conll.py --side wolfpack    # one side, in this process

Each side runs in a process of its own, so that its CPU seconds and its peak memory are
its own. Both get the same dicts. Each chooses its regularisation on a held-out fifth of
the training sentences (`tune`), then learns from all of them; the F1 score is that of
seqeval on the test part. CPU seconds are those of the last fit, from dicts to a model.
`streamed` is wolfpack again, fed by a generator: the dicts are never all in memory.
The process that tunes is another one, because it needs more memory. scikit-learn
imports pandas wherever it is installed (30 MB), and no side needs it; `--no-pandas`
hides it from all of them.
Needs the extras seqeval and sklearn-crfsuite, and WOLFPACK_DATA.
"""

import argparse
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

ALPHAS = (3e-4, 5e-4, 1e-3, 2e-3)
C2 = (0.1, 0.3, 1.0, 3.0)


def sentences(part):
    """Yield lists of (word, tag, chunk)."""
    path = Path(os.environ["WOLFPACK_DATA"]) / "conll2000" / f"{part}.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = []
        for line in file:
            if line.strip():
                rows.append(line.split())
            elif rows:
                yield rows
                rows = []
        if rows:
            yield rows


def shape(word):
    for letters, sign in (("[A-Z]+", "X"), ("[a-z]+", "x"), ("[0-9]+", "0")):
        word = re.sub(letters, sign, word)
    return word


def describe(sentence):
    """Return a dict a token: words and tags around it, their pairs, shape, affixes."""
    edge = ["<s>", "<s>"]
    w = [*edge, *(row[0].lower() for row in sentence), *edge]
    t = [*edge, *(row[1] for row in sentence), *edge]
    described = []
    for i, row in enumerate(sentence, start=2):
        one = {f"w{k:+d}": w[i + k] for k in range(-2, 3)}
        one |= {f"t{k:+d}": t[i + k] for k in range(-2, 3)}
        for name, of in (("w", w), ("t", t)):
            one[f"{name}-1{name}0"] = f"{of[i - 1]}|{of[i]}"
            one[f"{name}0{name}1"] = f"{of[i]}|{of[i + 1]}"
        one["t-1t0t1"] = "|".join(t[i - 1 : i + 2])
        one |= {"shape": shape(row[0]), "prefix": w[i][:3], "suffix": w[i][-3:]}
        described.append(one)
    return described


def labels(part):
    return [[row[2] for row in sentence] for sentence in sentences(part)]


def make_wolfpack(alpha):
    from sklearn.pipeline import make_pipeline

    from wolfpack import ChainSSVM, SequenceVectorizer

    model = ChainSSVM(alpha=alpha, tol=0.01, random_state=0)
    return make_pipeline(SequenceVectorizer(min_count=2), model)


def make_crfsuite(c2):
    import sklearn_crfsuite

    return sklearn_crfsuite.CRF(algorithm="lbfgs", c2=c2, max_iterations=100)


SIDES = {
    "wolfpack": (make_wolfpack, ALPHAS),
    "streamed": (make_wolfpack, ALPHAS),
    "crfsuite": (make_crfsuite, C2),
}


def tune(side):
    """Return the parameter with the best F1 on every fifth training sentence."""
    from seqeval.metrics import f1_score

    make, values = SIDES[side]
    X, y = [describe(sentence) for sentence in sentences("train")], labels("train")
    held = [k % 5 == 0 for k in range(len(y))]
    parts = [[[a for a, h in zip(z, held, strict=True) if h is kept] for z in (X, y)]
             for kept in (False, True)]  # fmt: skip
    scores = {}
    for value in values:
        found = make(value).fit(*parts[0]).predict(parts[1][0])
        scores[value] = float(f1_score(parts[1][1], [*found]))
        print(f"{side} {value:g}: held-out F1 {scores[value]:.4f}", file=sys.stderr)
    return max(scores, key=scores.__getitem__)


def measure(side, value):
    """Fit on all training sentences; return what is compared."""
    make, _ = SIDES[side]
    y = labels("train")
    X = (describe(sentence) for sentence in sentences("train"))
    if side != "streamed":
        X = [*X]
    model, begin = make(value), time.process_time()
    model.fit(X, y)
    spent = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    from seqeval.metrics import f1_score

    found = model.predict([describe(sentence) for sentence in sentences("test")])
    score = float(f1_score(labels("test"), [*found]))
    return {"parameter": value, "f1": score, "cpu_seconds": spent, "peak_mb": peak}


def run(side, *more):
    command = [sys.executable, *sys.argv[:1], "--side", side, *more]
    command += ["--no-pandas"] * ("--no-pandas" in sys.argv)
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(output.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", choices=[*SIDES])
    parser.add_argument("--tune", action="store_true", help="only tune this side")
    parser.add_argument("--value", type=float, help="do not tune, take this parameter")
    parser.add_argument("--no-pandas", action="store_true", help="hide pandas")
    args = parser.parse_args()
    if args.no_pandas:
        sys.modules["pandas"] = None
    if args.side and args.tune:
        print(json.dumps(tune(args.side)))
    elif args.side and args.value is not None:
        print(json.dumps(measure(args.side, args.value)))
    else:
        chosen = {}
        for side in [args.side] if args.side else [*SIDES]:
            maker = SIDES[side][0]
            if maker not in chosen:
                chosen[maker] = run(side, "--tune")
            # The first call fills the cache of compiled loops.
            for _ in range(1 if side == "crfsuite" else 2):
                found = run(side, "--value", str(chosen[maker]))
            print(
                f"{side:9}  parameter {found['parameter']:g}  F1 {found['f1']:.4f}  "
                f"CPU {found['cpu_seconds']:5.1f} s  peak {found['peak_mb']:4.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
