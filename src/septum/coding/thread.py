"""Threads over samples, with one BLAS thread each.

Many BLAS threads on small products collapse, and a product may differ in its last bits with the number of
threads. So while samples are shared among a pool, BLAS is held to one thread; a count of the callers makes that
safe when several threads of the user's program do so at once.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from septum.errors import InvalidInputError

Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = Lock()
_state: dict[str, Any] = {"controller": None, "limiter": None, "callers": 0}


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Hold every BLAS to one thread while at least one caller is inside."""
    with _lock:
        if _state["callers"] == 0:
            if _state["controller"] is None:
                import scipy.linalg.cython_blas  # noqa: F401  the BLAS that compiled code calls

                _state["controller"] = ThreadpoolController()
            _state["limiter"] = _state["controller"].limit(limits=1, user_api="blas")
            _state["limiter"].__enter__()
        _state["callers"] += 1
    try:
        yield
    finally:
        with _lock:
            _state["callers"] -= 1
            if _state["callers"] == 0:
                _state["limiter"].__exit__(None, None, None)


def count_jobs(n_jobs: int | None) -> int:
    """scikit-learn's meaning: None is 1, -1 is every core, -2 all but one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or (not isinstance(n_jobs, int) and not hasattr(n_jobs, "__index__")):
        raise InvalidInputError(f"n_jobs must be None or a whole number, not {n_jobs!r}")
    jobs = int(n_jobs)
    if jobs == 0:
        raise InvalidInputError("n_jobs=0 means no worker at all: use None or 1 for one, -1 for every core")
    return jobs if jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + jobs)


def each(function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None) -> Iterator[Result]:
    """The results of `function` on items, in their order, with one BLAS thread in each of `n_jobs` threads."""
    jobs = count_jobs(n_jobs)
    with single_blas_thread():
        if jobs == 1:
            for item in items:
                yield function(item)
            return
        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(function, items)
