"""What every benchmark shares: the machine in words, medians, and results as JSON beside a Markdown table."""

import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, str]:
    """Processor, cores, Python and the versions that matter."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    names = ("septum", "numpy", "scipy", "scikit-learn", "numba")
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


def command() -> str:
    """The command line that made a result, without the folders of the machine."""
    script, *words = sys.argv
    return " ".join(["python", f"benchmarks/{Path(script).name}", *(Path(w).name if "/" in w else w for w in words)])


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [header, ["---"] * len(header), *rows]]
    return "\n".join(lines)


def write(name: str, title: str, sections: Sequence[tuple[str, str]], record: dict[str, Any]) -> None:
    """results/NAME.json and results/NAME.md, with the command and the machine."""
    RESULTS.mkdir(exist_ok=True)
    record = {"command": command(), "machine": machine(), **record}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    parts = [f"# {title}", f"`{command()}`", about + "."]
    parts += [f"## {heading}\n\n{text}" for heading, text in sections]
    (RESULTS / f"{name}.md").write_text("\n\n".join(parts) + "\n")
