"""Makes the modules of `tests` importable; import it before them."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "abuse"), str(TESTS)]
