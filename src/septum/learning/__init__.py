"""Learning: solvers that share one shape, `learn(problem, settings) -> Learned`, chosen by name.

`palm` is the paper's algorithms 1-4, corrected; `fast` goes straight for the compact dictionary. Each
solver is a module of its own and is loaded when it is first asked for.
"""

from importlib import import_module

from septum.errors import InvalidInputError
from septum.learning.history import Learned, Recorder, Settings, Step
from septum.problem import Problem
from septum.regularizer import Separable

__all__ = ["Learned", "Recorder", "SOLVERS", "Settings", "Step", "solve"]

SOLVERS = ("fast", "palm")


def solve(problem: Problem, solver: str, settings: Settings) -> Learned:
    """Run the solver of that name.

    The steps of "fast" are exact for the paper's regulariser only; with any other it hands over to "palm".
    """
    if solver not in SOLVERS:
        raise InvalidInputError(f"solver must be one of {list(SOLVERS)}, not {solver!r}")
    if not isinstance(problem.regularizer, Separable):
        solver = "palm"
    return import_module(f"septum.learning.{solver}").learn(problem, settings)
