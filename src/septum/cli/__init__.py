"""The command line: `septum COMMAND ...`.

One file per command, loaded only when that command runs, so that help is quick. A command's module has
a docstring (its description), `EXAMPLE` (shown by -h), `add_arguments(parser)`, and `run(args)`, which
parses nothing, decides nothing and writes nothing that the library could: it calls, and reports. `run`
may return an exit status. Errors need no care there: `main` turns a `SeptumError` or `OSError` into one
line on standard error and status 2, Ctrl-C into 130, a kill into 143, and outputs are whole or absent
because they are written by `septum.dmri.output.Outputs`.

To add a command: write its file, and add its line to `COMMANDS`.
"""

import argparse
import difflib
import importlib
import importlib.util
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import NoReturn

from septum import __version__
from septum.cli.option import add_shared
from septum.errors import MissingExtraError, SeptumError

COMMANDS = {
    "demo": "simulate a small phantom, learn, denoise and report",
    "phantom": "simulate the ISBI 2013 phantom",
    "learn": "learn dictionaries from images",
    "denoise": "denoise a diffusion image",
    "certify": "recompute a model's certificate",
    "odf": "orientation distribution functions and their pictures",
    "show": "say what a model holds; pictures of its atoms",
    "reproduce": "the paper's figures and tables, beside the paper's numbers",
}
_EXTRAS = ("nibabel", "dipy", "curvelets", "typing_extensions", "pywt", "matplotlib", "jinja2", "rich")

EXIT_DONE, EXIT_BUG, EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 0, 1, 2, 130, 141
RESEND_AFTER = 0.05  # seconds


class Stopped(BaseException):
    """A signal asked the program to end; `status` is the exit status that says so."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.status = 128 + number


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_INPUT, f"septum: error: {_one_line(message)} (see {self.prog} -h)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        args = _parse(words)
    except SystemExit as stop:  # argparse: help, version, or a wrong option
        return int(stop.code or 0)
    if args is None:
        return EXIT_BAD_INPUT
    try:
        with _signals(), _threads(args.n_threads), _plain_warnings(args.verbosity):
            status = args.run(args)
            sys.stdout.flush()
        return int(status or EXIT_DONE)
    except BaseException as error:
        return _explain(error, args.verbosity)


def program() -> NoReturn:
    """What the shell runs: `main`, then the end. A stopped run ends at once, with no tear-down of code half compiled."""
    status = main()
    if status > 128:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def available() -> dict[str, str]:
    """The commands whose files are there, with a line on each."""
    return {
        name: text
        for name, text in COMMANDS.items()
        if importlib.util.find_spec(f"septum.cli.{name}") is not None
    }


def _parse(words: list[str]) -> argparse.Namespace | None:
    """The parsed arguments, with the command's `run` among them; None when there is no such command."""
    commands = available()
    first = next((word for word in words if not word.startswith("-")), None)
    if first is not None and first not in commands:
        _complain(f"unknown command {first!r}{_suggestion(first, commands)} (septum -h lists the commands)")
        return None
    top = _Parser(
        prog="septum",
        description="Separable dictionary learning, certified: denoise diffusion MRI and see how far from optimal.",
        epilog="example: septum denoise dwi.nii.gz -o denoised.nii.gz",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"septum {__version__}")
    places = top.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    for name, text in commands.items():
        module = importlib.import_module(f"septum.cli.{name}") if name == first else None
        _add_command(places, name, text, module)
    args = top.parse_args(words)
    if first is None:
        top.print_help(sys.stderr)
        return None
    return args


def _add_command(
    places: "argparse._SubParsersAction[_Parser]", name: str, text: str, module: ModuleType | None
) -> None:
    if module is None:
        places.add_parser(name, help=text)
        return
    parser = places.add_parser(
        name,
        help=text,
        description=module.__doc__,
        epilog=f"example:\n  {module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    add_shared(parser)
    parser.set_defaults(run=module.run, command=name)


def _suggestion(word: str, commands: dict[str, str]) -> str:
    close = difflib.get_close_matches(word, commands, n=1, cutoff=0.5)
    return f": did you mean {close[0]!r}?" if close else ""


def _explain(error: BaseException, verbosity: int) -> int:
    """Say in one line what ended the command; returns the exit status."""
    if isinstance(error, Stopped):
        _complain("nothing was left half-written", kind="stopped")
        return error.status
    if isinstance(error, KeyboardInterrupt):
        _complain("nothing was left half-written", kind="interrupted")
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of our output has gone; keep Python from complaining when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    if isinstance(error, SystemExit):
        return int(error.code or 0) if not isinstance(error.code, str) else EXIT_BAD_INPUT
    if isinstance(error, ImportError) and (error.name or "").split(".")[0] in _EXTRAS:
        error = MissingExtraError(str(error.name).split(".")[0])
    if isinstance(error, SeptumError):
        _complain(str(error))
    elif isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        _complain(f"{name}{error.strerror or error}")
    elif isinstance(error, MemoryError):
        _complain(f"not enough memory ({error}): close other programs, or work on a smaller image")
    elif verbosity > 0:
        raise error
    else:
        _complain(
            f"unexpected {type(error).__name__}: {error}; this is a fault of septum, run again with -v for its place"
        )
        return EXIT_BUG
    return EXIT_BAD_INPUT


def _complain(message: str, kind: str = "error") -> None:
    print(f"septum: {kind}: {_one_line(message)}", file=sys.stderr)


def _one_line(message: str) -> str:
    return " ".join(message.split())


@contextmanager
def _signals() -> Iterator[None]:
    """Inside, a kill or a closed terminal raises `Stopped`, so that every `with` block cleans up.

    Where a signal comes while Python runs inside a callback of C code (a compiler's, a finaliser's), what it raises is
    dropped there and only reported to `sys.unraisablehook`: the signal is then sent once more, a moment later.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    def once_more(dropped: "sys.UnraisableHookArgs") -> None:
        if isinstance(dropped.exc_value, Stopped):
            number = dropped.exc_value.number
        elif isinstance(dropped.exc_value, KeyboardInterrupt):
            number = signal.SIGINT
        else:
            report(dropped)
            return
        again = threading.Timer(RESEND_AFTER, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    report, sys.unraisablehook = sys.unraisablehook, once_more
    kept = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None:
            try:
                kept[number] = signal.signal(number, stop)
            except ValueError:  # only the main thread may set handlers
                break
    try:
        yield
    finally:
        sys.unraisablehook = report
        for number, handler in kept.items():
            signal.signal(number, handler)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Inside, compiled code may use `count` threads and BLAS one: its sums then never depend on the count."""
    if "numpy" not in sys.modules:
        for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM"):
            os.environ[f"{library}_NUM_THREADS"] = "1"
        os.environ.setdefault("NUMBA_NUM_THREADS", str(max(count, os.cpu_count() or 1)))
    from numba import config, get_num_threads, set_num_threads
    from threadpoolctl import threadpool_limits

    before = get_num_threads()
    set_num_threads(max(1, min(count, config.NUMBA_NUM_THREADS)))
    try:
        with threadpool_limits(1):
            yield
    finally:
        set_num_threads(before)


@contextmanager
def _plain_warnings(verbosity: int) -> Iterator[None]:
    """Inside, what septum warns of is one line each; other packages' warnings are shown with -v only."""
    if verbosity > 0:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if verbosity == 0:
            warnings.filterwarnings("default", category=UserWarning, module=r"septum\.")
        warnings.showwarning = lambda message, *rest, **more: _complain(str(message), kind="warning")
        yield
