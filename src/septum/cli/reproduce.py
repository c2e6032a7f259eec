"""Run an experiment of the paper from nothing and set its numbers beside the paper's.

Writes into DIR: report.html, record.json, and the pictures as PNG and SVG. Finished stages are kept in DIR/stages:
a run that was stopped goes on where it was. --check RECORD compares with an earlier record and exits 1 if a number
differs.
"""

import argparse
import importlib
from pathlib import Path
from typing import Any

from septum.cli.option import positive_float
from septum.cli.progress import Progress, say

EXAMPLE = "septum reproduce synthetic --small -o synthetic"

STUDIES = ("synthetic", "phantom", "real")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", choices=STUDIES, help="section 6, section 7's phantom, or a real image")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write into")
    parser.add_argument("--small", action="store_true", help="sizes that take about two minutes")
    parser.add_argument(
        "--cap",
        type=positive_float,
        metavar="S",
        help="for synthetic: seconds for each run of the paper's algorithm (default: 600)",
    )
    parser.add_argument("--check", type=Path, metavar="RECORD", help="compare with an earlier record.json")
    parser.add_argument(
        "--rtol", type=positive_float, default=1e-3, metavar="R", help="tolerance of --check (default: 0.001)"
    )
    parser.add_argument(
        "--image", type=Path, metavar="DWI", help="for real: the image (default: the sample that comes with septum)"
    )


def run(args: argparse.Namespace) -> int:
    from septum.errors import InvalidInputError
    from septum.experiment import Study
    from septum.report.record import Record, compare

    if args.image is not None and args.study != "real":
        raise InvalidInputError("--image belongs to 'septum reproduce real'")
    earlier = None if args.check is None else Record.read(args.check)
    with Progress(f"reproduce {args.study}", args.verbosity) as report:
        study = Study(
            args.output, args.seed, args.small, args.n_threads, _command(args), args.cap, report
        )
        options: dict[str, Any] = {} if args.image is None else {"image": args.image}
        record, pictures = _write(study, args, options)
    say(f"wrote {args.output / 'report.html'}, record.json and {len(pictures)} pictures", args.verbosity)
    if earlier is None:
        return 0
    differences = compare(record, earlier, rtol=args.rtol)
    for difference in differences:
        say(str(difference), args.verbosity)
    say(f"{len(differences)} numbers differ" if differences else "every number agrees", args.verbosity)
    return 1 if differences else 0


def _write(study: Any, args: argparse.Namespace, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Run the study, then write the page, the record and the pictures together."""
    from matplotlib.figure import Figure

    from septum import plot
    from septum.dmri.output import Outputs
    from septum.report import study_report

    folder: Path = args.output
    with Outputs(force=args.force) as outputs:
        outputs.folder(folder)
        outputs.claim(folder / "report.html", folder / "record.json")
        record, pictures = importlib.import_module(f"septum.experiment.{args.study}").run(study, **options)
        for name, picture in pictures.items():
            if isinstance(picture, Figure):
                outputs.bytes(folder / f"{name}.png", plot.png(picture))
                outputs.text(folder / f"{name}.svg", plot.svg(picture))
        study_report(folder / "report.html", record, pictures, record_path=folder / "record.json", outputs=outputs)
    return record, pictures


def _command(args: argparse.Namespace) -> str:
    words = ["septum reproduce", args.study, "-o", str(args.output)]
    words += ["--small"] if args.small else []
    words += ["--cap", f"{args.cap:g}"] if args.cap is not None else []
    words += ["--image", str(args.image)] if args.image is not None else []
    return " ".join([*words, "--seed", str(args.seed)])
