"""Change points that people have marked, as `wolfpack changes --truth` reads them."""

import json
from pathlib import Path
from typing import Any

from wolfpack.change_points.metrics import Annotations, annotators


def read_truth(text: str, series: str, n: int) -> Annotations:
    """Return the points of each annotator: from "40,60", or out of a JSON file.

    The file has a list of rows, a dict of such lists by annotator, or a dict of these
    by series, as the annotations of the Turing Change Point Dataset do.
    """
    path = Path(text)
    if path.suffix.lower() != ".json":
        try:
            return _checked([int(part) for part in text.split(",") if part], n, text)
        except ValueError:
            raise ValueError(
                "--truth must be row numbers such as 40,60, or a .json file of them; "
                f"not {text!r}, for a signal of {n} rows."
            ) from None
    if not path.is_file():
        raise ValueError(f"{path} does not exist.")
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}.") from error
    if isinstance(found, dict) and any(isinstance(one, dict) for one in found.values()):
        if series not in found:
            raise ValueError(
                f"{path} has no entry {series!r}, the name of the signal's file, but "
                f"{', '.join(map(repr, list(found)[:5]))}."
            )
        found = found[series]
    return _checked(found, n, text)


def _checked(found: Any, n: int, text: str) -> Annotations:
    try:
        marked = annotators(found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"--truth {text}: {error}") from error
    rows = [row for points in marked for row in points]
    if rows and not 0 <= min(rows) <= max(rows) <= n:
        raise ValueError(f"--truth {text}: rows {min(rows)} to {max(rows)} of {n}.")
    return found
