"""A small real volume that comes with septum: 48 x 48 x 9 voxels of a human brain, one b0 and 64 directions.

In vivo, b = 1000 s/mm2, 1.8 mm, 3 T; raw magnitude values. A crop of the volume of the NLSAM datasets,
shipped under CC BY 4.0; `CREDIT` says whose it is and must be repeated by whoever passes it on.
"""

from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

CREDIT = (
    "St-Jean, Coupé and Descoteaux, Medical Image Analysis 32 (2016) 115-130; data provided (in part) by the "
    "Centre d'imagerie moléculaire de Sherbrooke (CIMS) and the Sherbrooke Connectivity Imaging Lab (SCIL), "
    "Université de Sherbrooke, Canada. CC BY 4.0. Cropped."
)


class Sample(NamedTuple):
    """Where the files of the sample are."""

    dwi: Path
    bval: Path
    bvec: Path


def sample() -> Sample:
    """Paths of the sample image and its gradient files: `septum.dmri.load(septum.dmri.sample().dwi)`."""
    folder = Path(str(files("septum.dmri") / "data"))
    return Sample(*(folder / f"sherbrooke_crop.{ending}" for ending in ("nii.gz", "bval", "bvec")))
