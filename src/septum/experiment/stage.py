"""Stages of an experiment, kept on disk: what is finished is not done again.

A stage is a function of its parameters that returns numbers (anything JSON can hold) and arrays. Its result
lies in the study's folder under a name made from the stage and its parameters, written whole or not at all;
other parameters, another seed or another version of septum make another name.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np

from septum import __version__
from septum.array import Float

Report = Callable[[float, str], None]


@dataclass(frozen=True)
class Result:
    """What a stage found."""

    numbers: dict[str, Any]
    arrays: dict[str, Float]


@dataclass(frozen=True)
class Study:
    """Where a study keeps its stages and how it is to be run.

    `small` asks for the sizes that take about two minutes; `cap` bounds, in seconds, each run of an algorithm that may
    not end by itself (None: the study's own bound); `report(fraction, text)` is told how far it is.
    """

    folder: Path
    seed: int = 0
    small: bool = False
    n_threads: int = 1
    command: str = ""
    cap: float | None = None
    report: Report = lambda fraction, text: None

    def stage(self, function: Callable[..., Result], /, **parameters: Any) -> Result:
        """The result of function(**parameters), from disk when it is there."""
        path = self._path(function, parameters)
        found = _read(path)
        if found is None:
            found = function(**parameters)
            _write(path, found)
        return found

    def stages(
        self, function: Callable[..., Result], every: Sequence[dict[str, Any]], *, begin: float, end: float, text: str
    ) -> list[Result]:
        """Results for several sets of parameters, in `n_threads` processes; progress goes from begin to end."""
        results: dict[int, Result] = {}
        todo = []
        for i, parameters in enumerate(every):
            found = _read(self._path(function, parameters))
            if found is None:
                todo.append(i)
            else:
                results[i] = found

        def note() -> None:
            self.report(begin + (end - begin) * len(results) / max(1, len(every)), text)

        note()
        if min(self.n_threads, len(todo)) <= 1:
            for i in todo:
                results[i] = self.stage(function, **every[i])
                note()
        else:
            self._in_processes(function, every, todo, results, note)
        return [results[i] for i in range(len(every))]

    def _in_processes(
        self,
        function: Callable[..., Result],
        every: Sequence[dict[str, Any]],
        todo: list[int],
        results: dict[int, Result],
        note: Callable[[], None],
    ) -> None:
        pool = ProcessPoolExecutor(min(self.n_threads, len(todo)), mp_context=get_context("spawn"))
        try:
            jobs = {pool.submit(function, **every[i]): i for i in todo}
            for job in as_completed(jobs):
                i = jobs[job]
                results[i] = job.result()
                _write(self._path(function, every[i]), results[i])
                note()
        except BaseException:
            # A stopped study must not wait for stages that may take minutes.
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()

    def _path(self, function: Callable[..., Result], parameters: dict[str, Any]) -> Path:
        key = json.dumps([__version__, function.__module__, function.__name__, parameters], sort_keys=True, default=str)
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        return self.folder / "stages" / f"{function.__name__}-{digest}.npz"


def _read(path: Path) -> Result | None:
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            numbers = json.loads(str(content["numbers"]))
            arrays = {name[6:]: content[name] for name in content.files if name.startswith("array_")}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        # A damaged file is only a stage to do again.
        return None
    return Result(numbers, arrays)


def _write(path: Path, result: Result) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{uuid4().hex}.npz")
    try:
        content: dict[str, Any] = {f"array_{name}": np.asarray(array) for name, array in result.arrays.items()}
        content["numbers"] = np.array(json.dumps(result.numbers))
        np.savez_compressed(scratch, **content)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
