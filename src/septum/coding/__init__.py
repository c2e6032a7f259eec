"""Sparse codes with given dictionaries: the separable lasso and orthogonal matching pursuit.

lasso            `sparse_code`: checks, choice of solver, refit        (public)
pursuit          `omp`                                                 (public)
engine           `solve`: chunks, threads, CSR codes; what the learning rooms call
sample           one sample, compiled: screening, working set, FISTA
working_set      coordinate descent and Newton steps on a local Gram (with `cholesky`)
accelerated      compiled FISTA on dense codes
majorise         missing entries and other losses, through squared-loss steps
linear_operator  the last mode as an operator
refit            least squares on the support
mode, gap        the dictionaries in kernel form; the duality gap
reference        the plain formulas that all of it is tested against
"""

from septum.coding.lasso import sparse_code
from septum.coding.pursuit import omp
from septum.coding.result import CodingResult

__all__ = ["CodingResult", "omp", "sparse_code"]
