"""The work behind `wolfpack fit`: a data set, the estimator for it, and its report."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

from wolfpack import datasets
from wolfpack.cli.console import Watcher, describe_team, peak_memory_mb, to_dict
from wolfpack.engines.ray import Ray
from wolfpack.engines.serial import Serial
from wolfpack.engines.sync import Sync
from wolfpack.engines.threads import Threads
from wolfpack.estimators.structured import ChainSSVM, auto_alpha
from wolfpack.files.model_file import save_model
from wolfpack.files.numbers import read_arrays, split
from wolfpack.files.replace import replacing, save_picture
from wolfpack.problem import Problem
from wolfpack.problems.chain import chain_ssvm
from wolfpack.result import in_words
from wolfpack.run.interrupt import Raised

CHAINS, SIGNALS = ("dates", "ocr", "conll2000"), ("piecewise", "acgh")


class Labelled(NamedTuple):
    """Sequences to label; `y` is None where the truth is unknown."""

    X: list
    y: list | None


def load(
    name: str, folds: list[int] | None, own: dict[str, Any] | None = None
) -> "Job":
    """Return the job for a data set by name, or for a file, with the options `own`."""
    from wolfpack.cli.signal_job import SignalJob

    own = own or {}
    if folds is not None and name != "ocr":
        raise ValueError(f"--folds is for ocr; {name} has no folds.")
    if name in CHAINS + SIGNALS and own:
        option = next(iter(own)).replace("_", "-")
        raise ValueError(
            f"--{option} is for files of your own, and {name} is a data set of "
            f"wolfpack; if you mean a file, write ./{name}."
        )
    if name == "dates":
        return ChainJob(*datasets.load_dates())
    if name == "ocr":
        return ChainJob(datasets.load_ocr(folds), _other_folds(folds))
    if name == "conll2000":
        return ChainJob(*map(datasets.load_conll2000, ("train", "test")))
    if name == "piecewise":
        noisy, clean, _ = datasets.make_piecewise()
        return SignalJob(name, noisy, clean)
    if name == "acgh":
        return SignalJob(name, datasets.load_acgh(), None)
    if Path(name).exists() or Path(name).suffix or "/" in name:
        from wolfpack.cli.own_files import FileJob

        return FileJob(Path(name), **own)
    known = ", ".join(CHAINS + SIGNALS)
    raise ValueError(
        f"there is no data set {name!r}; there are {known}. There is no file of that "
        "name either."
    )


def make_engine(
    name: str, mode: str | None, workers: int | None, address: str | None = None
) -> Any:
    """Return the engine that the command line asks for."""
    if address is not None and name != "ray":
        raise ValueError(f"--address is for --engine ray; {name} has none.")
    if mode is not None and name != "threads":
        raise ValueError(f"--mode is for --engine threads; {name} has none.")
    if name == "serial" and workers not in (None, 1):
        raise ValueError(f"--engine serial has one worker, not {workers}.")
    if name == "ray":
        return Ray(address, workers or "auto")
    if name == "threads":
        return Threads(workers, mode or "merge")  # pyright: ignore[reportArgumentType]
    return Sync(workers) if name == "sync" else Serial()


def forced(engine: Any) -> dict[str, Any]:
    """Return the sampling of an engine that knows only one."""
    is_uniform = isinstance(engine, Ray) or getattr(engine, "mode", None) == "server"
    return {"sampling": "uniform"} if is_uniform else {}


def _other_folds(folds: list[int] | None) -> datasets.Sequences | None:
    others = sorted(set(range(10)) - set(folds or range(10)))
    return datasets.load_ocr(others) if others else None


def load_sequences(name: str, folds: list[int] | None) -> Labelled:
    """Return what `wolfpack predict` labels."""
    if name == "dates":
        data = datasets.load_dates()[1]
    elif name == "ocr":
        data = datasets.load_ocr(folds)
    elif name == "conll2000":
        data = datasets.load_conll2000("test")
    elif Path(name).suffix == ".npz":
        return _read_sequences(Path(name))
    else:
        known = ", ".join(CHAINS)
        raise ValueError(f"DATA must be one of {known}, or an .npz file, not {name!r}.")
    return Labelled(data.X, data.y)


def _read_sequences(path: Path) -> Labelled:
    X, y, offsets = read_arrays(path)
    if offsets is None:
        has = ["X"] if y is None else ["X", "y"]
        raise ValueError(f"{path} lacks ['offsets']; it has {has}.")
    return Labelled(split(X, offsets), split(y, offsets))


def _outer_steps(report: dict[str, Any]) -> str:
    count = report["n_outer"]
    return f", {count} outer step{'' if count == 1 else 's'}" if count else ""


class Job(ABC):
    """What both kinds of jobs share."""

    model: Any
    estimator: Any  # its defaults are those of the command line
    has_page = True

    def watch(
        self, data: tuple, as_json: bool, quiet: bool, engine: Any
    ) -> dict[str, Any]:
        """Fit while telling the user; return the report."""
        model, engine = self.model, engine or Serial()
        with Watcher(as_json, quiet) as watcher:
            model.set_params(engine=engine, callback=watcher)
            try:
                with Raised():
                    model.fit(*data)
            except KeyboardInterrupt:
                if not hasattr(model, "status_"):  # nothing is learnt yet
                    raise
        row = to_dict(model.trace_[-1])
        status = {"status": model.status_.name, "reason": model.status_.value}
        team = describe_team(engine, model.result_)
        return {**status, **row, **team, "peak_memory_mb": peak_memory_mb()}

    def keep(
        self,
        report: dict[str, Any],
        save: Path | None,
        plot: Path | None,
        page: Path | None = None,
    ) -> OSError | None:
        """Write what is asked for, and say so in the report; return what failed."""
        try:
            if save is not None:
                report["model"] = str(self.save(save))
            if plot is not None:
                self.plot(plot)
                report["plot"] = str(plot)
            if page is not None:
                with replacing(page) as file:
                    file.write(self.page(report).encode())
                report["report"] = str(page)
        except OSError as error:
            return error
        return None

    @property
    def tol(self) -> float:
        """Where `fit` stops, unless the user says otherwise."""
        return self.estimator().tol

    @abstractmethod
    def describe(self, options: dict[str, Any]) -> str:
        """Say what will be done."""

    @abstractmethod
    def problem(self, alpha: float | None) -> Problem:
        """Return what `fit` solves."""

    @abstractmethod
    def fit(
        self, options: dict[str, Any], as_json: bool, quiet: bool, engine: Any = None
    ) -> dict[str, Any]:
        """Do it; return the report."""

    def summary(self, report: dict[str, Any]) -> str:
        """Say what came out."""
        lines = [self.certificate(report)]
        for name, words in (("score", "Right labels"), ("chunk_f1", "Chunk F1")):
            if f"train_{name}" in report:
                lines.append(f"{words}: {report[f'train_{name}']:.4f} in training")
                if f"test_{name}" in report:
                    lines[-1] += f", {report[f'test_{name}']:.4f} in test"
                lines[-1] += "."
        if report["peak_memory_mb"]:
            lines[-1] += f" Peak memory {report['peak_memory_mb']:.0f} MB."
        if "note" in report:
            lines.append(f"Note: {report['note']}")
        return "\n".join(lines + self.files(report))

    def page(self, report: dict[str, Any]) -> str:
        """Return the model in one page of HTML."""
        raise NotImplementedError

    @abstractmethod
    def save(self, path: Path) -> Path:
        """Keep what was learnt."""

    def plot(self, path: Path) -> None:
        """Draw the convergence."""
        from wolfpack.plotting import plot_trace

        save_picture(plot_trace(self.model.trace_).figure, path)

    def certificate(self, report: dict[str, Any]) -> str:
        """Say why it stopped, and where the optimum lies."""
        return (
            f"{report['status']}: {report['reason']}\n"
            f"The best objective lies between {report['dual']:.8f} and "
            f"{report['primal']:.8f} (gap {report['gap']:.2e}, relative "
            f"{report['relative_gap']:.1e}, {in_words(report['gap_over_primal'])}), "
            "certified after "
            f"{report['epoch']:.0f} passes{_outer_steps(report)} and "
            f"{report['wall_seconds']:.1f} s." + self._team(report)
        )

    def _team(self, report: dict[str, Any]) -> str:
        if report["engine"] == "serial":
            return ""
        text = f"\nWorkers: {report['workers']} ({report['engine']}"
        if "mode" in report:
            text += f", {report['mode']}"
        text += ")."
        if "delay_mean" in report:
            text += (
                f" Updates were computed {report['delay_mean']:.2g} updates ago on "
                f"average, {report['delay_max']} at most."
            )
        return text

    def files(self, report: dict[str, Any]) -> list[str]:
        """Say what was written."""
        names = {"model": "Saved", "plot": "Picture", "report": "Report"}
        return [f"{names[k]}: {report[k]}" for k in names if k in report]


class ChainJob(Job):
    """Train a chain structural SVM."""

    estimator = ChainSSVM

    def __init__(self, train: datasets.Sequences, test: datasets.Sequences | None):
        self.train, self.test = train, test

    def describe(self, options: dict[str, Any]) -> str:
        """Say what will be done."""
        alpha = options.get("alpha", auto_alpha(self.train.X))
        positions = sum(len(y) for y in self.train.y)
        n_features, n_labels = self.train.X[0].shape[1], len(self.train.label_names)
        return (
            f"Training a chain structural SVM on {self.train.name}: "
            f"{len(self.train.X)} sequences, {positions} positions, "
            f"{n_features} features, {n_labels} labels; alpha = {alpha:g}."
        )

    def problem(self, alpha: float | None) -> Problem:
        """Return what `fit` solves."""
        alpha = auto_alpha(self.train.X) if alpha is None else alpha
        return chain_ssvm(self.train.X, self.train.y, alpha, normalize="auto")

    def fit(
        self, options: dict[str, Any], as_json: bool, quiet: bool, engine: Any = None
    ) -> dict[str, Any]:
        """Train; return the report."""
        self.model = ChainSSVM(**{**forced(engine), **options})
        report = self.watch((self.train.X, self.train.y), as_json, quiet, engine)
        report["train_score"] = self.model.score(self.train.X, self.train.y)
        if self.test is not None:
            report["test_score"] = self.model.score(self.test.X, self.test.y)
        return report

    def save(self, path: Path) -> Path:
        """Keep the model."""
        about = {"dataset": self.train.name, "label_names": self.train.label_names}
        return save_model(self.model, path, **about)

    def page(self, report: dict[str, Any]) -> str:
        """Return the model in one page of HTML."""
        from wolfpack.cli.model_page import Page

        words = self.train.label_names
        labels = [words[k] for k in self.model.classes_]
        names = [f"x{k}" for k in range(self.model.n_features_in_)]
        return Page(self, self.train.name, labels, names).render(report)
