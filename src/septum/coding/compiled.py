"""How septum's sparse-coding kernels are compiled: once, kept on disk, without Python's lock.

Sums and maxima may be reordered by the compiler for vector units (the order is fixed in the machine code, so
results repeat). Arrays are finite here: they were checked at the door.
"""

from typing import Any

from numba import njit

compiled: Any = njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz", "nnan"})
