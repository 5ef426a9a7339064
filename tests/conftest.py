import os
from pathlib import Path

import pytest

os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture(scope="session")
def data_home():
    """The folder of data sets: WOLFPACK_DATA, else the one beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("WOLFPACK_DATA") or beside)
    if not folder.is_dir():
        pytest.skip(f"needs the data sets: {folder} is no folder, set WOLFPACK_DATA")
    return folder
