"""Every method the paper compares with, and what users would try beside it, behind one interface.

Estimators with scikit-learn's manners: `KSVD`, `KDRSDL`, and `tuned_kdrsdl`, which chooses KDRSDL's weights.
`total_variation_code` codes one slice with total variation and a certificate. `catalogue` has the rows of
the comparison, one function each (`catalogue.i_sr`, `catalogue.ksvd_ksvd`, `catalogue.proposed`, ...);
each returns a `Method` with fit, code, reconstruct and describe, so an experiment is a list of them.
"""

from septum.baselines import catalogue
from septum.baselines.catalogue import paper_methods
from septum.baselines.kdrsdl import KDRSDL
from septum.baselines.kronecker_sum import KroneckerSum
from septum.baselines.ksvd import KSVD
from septum.baselines.method import Method, SeparableMethod, VectorisedMethod
from septum.baselines.total_variation import TotalVariationResult, total_variation_code
from septum.baselines.tuning import tuned_kdrsdl
from septum.baselines.tv_method import TotalVariationMethod

__all__ = [
    "KDRSDL",
    "KSVD",
    "KroneckerSum",
    "Method",
    "SeparableMethod",
    "TotalVariationMethod",
    "TotalVariationResult",
    "VectorisedMethod",
    "catalogue",
    "paper_methods",
    "total_variation_code",
    "tuned_kdrsdl",
]
