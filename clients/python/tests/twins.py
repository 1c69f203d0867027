"""Writes what pays with httpx2 from what pays with httpx: the same code, typed for the other library.

Run by hand after a change of either source: python tests/twins.py. A test holds them together.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "purserpay"
TWINS = {"httpx.py": "httpx2.py", "_streams.py": "_streams2.py"}


def twin(source: str) -> str:
    """Make the twin of a file."""
    text = re.sub(r"\bhttp(x|core)\b", r"http\g<1>2", (PACKAGE / source).read_text()).replace("_streams ", "_streams2 ")
    note = f"# Written by tests/twins.py from {source}.\n"
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PACKAGE / TWINS[source]), "-"]
    return note + subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    for source, target in TWINS.items():
        (PACKAGE / target).write_text(twin(source))
