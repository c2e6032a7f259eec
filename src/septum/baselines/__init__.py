"""Every method the paper compares with, and what users would try beside it, behind one interface."""

from septum.baselines.kdrsdl import KDRSDL
from septum.baselines.ksvd import KSVD

__all__ = ["KDRSDL", "KSVD"]
