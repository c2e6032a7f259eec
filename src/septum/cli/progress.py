"""Progress and messages: bars on a terminal, plain lines in a log, nothing when asked to be quiet.

The library reports through a callback(fraction, text) and never prints; a command wraps it:

    with Progress("denoise", args.verbosity) as report:
        denoise(..., callback=report)
"""

import sys
import time
from types import TracebackType
from typing import Any, TextIO


def say(text: str, verbosity: int = 0, *, level: int = 0) -> None:
    """Print a line of the answer, unless the verbosity is below its level (-q is -1, -v is 1)."""
    if verbosity >= level:
        print(text)


class Progress:
    """A callback(fraction, text) with fraction from 0 to 1, and the time left."""

    def __init__(self, title: str, verbosity: int = 0, *, stream: TextIO | None = None) -> None:
        self.title = title
        self._stream = sys.stderr if stream is None else stream
        self._face: _Silent | _Lines | _Bar = _Silent()
        if verbosity >= 0:
            self._face = _bar_or_lines(title, self._stream)

    def __enter__(self) -> "Progress":
        self._face.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._face.stop(done=kind is None)

    def __call__(self, fraction: float, text: str = "") -> None:
        self._face.update(min(max(float(fraction), 0.0), 1.0), text)


class _Silent:
    def start(self) -> None:
        return

    def update(self, fraction: float, text: str) -> None:
        return

    def stop(self, done: bool) -> None:
        return


class _Lines:
    """A line at every tenth of the way, at most one a second, and one at the end."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self._title, self._stream = title, stream
        self._begin = self._last = 0.0
        self._shown = 0.0

    def start(self) -> None:
        self._begin = self._last = time.monotonic()

    def update(self, fraction: float, text: str) -> None:
        now = time.monotonic()
        if fraction < self._shown + 0.1 or now - self._last < 1.0 or fraction >= 1.0:
            return
        left = (now - self._begin) * (1 - fraction) / fraction
        self._shown, self._last = fraction, now
        what = f" ({text})" if text else ""
        self._write(f"{fraction:.0%}{what}, about {_duration(left)} left")

    def stop(self, done: bool) -> None:
        if done:
            self._write(f"done in {_duration(time.monotonic() - self._begin)}")

    def _write(self, text: str) -> None:
        print(f"septum: {self._title}: {text}", file=self._stream, flush=True)


class _Bar:
    """A bar by rich, gone when the work is done."""

    def __init__(self, title: str, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Rich

        self._bar: Any = Rich(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[what]}"),
            console=Console(file=stream),
            transient=True,
        )
        self._task = self._bar.add_task(title, total=1.0, what="")

    def start(self) -> None:
        self._bar.start()

    def update(self, fraction: float, text: str) -> None:
        self._bar.update(self._task, completed=fraction, what=text)

    def stop(self, done: bool) -> None:
        self._bar.stop()


def _bar_or_lines(title: str, stream: TextIO) -> "_Lines | _Bar":
    if stream.isatty():
        try:
            return _Bar(title, stream)
        except ImportError:  # rich is an extra; lines do as well
            return _Lines(title, stream)
    return _Lines(title, stream)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
