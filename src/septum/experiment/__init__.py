"""The paper's experiments, one file each: `synthetic` (section 6), `phantom` and `real` (section 7).

Each offers `run(study) -> (Record, pictures)`: stages that are kept on disk as they finish, so that a run that was
stopped goes on where it was, then tables with the paper's own numbers beside what was measured.
"""

from septum.experiment.stage import Study

__all__ = ["Study"]
