"""Pictures of section 7: dictionaries as patches, as orientation distributions and as fields, and close-ups.

An angular atom is a signal on the directions; its orientation distribution is the Funk-Radon transform, P_l(0) times
its coefficients in even harmonics, which is linear and so takes atoms of any sign. A joint atom is a field: the
angular atom's shape at every voxel, as strong as the spatial atom is there.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import eval_legendre

from septum.array import Float
from septum.dmri.gradient import Gradients
from septum.dmri.harmonic import basis, degrees, laplace_beltrami
from septum.dmri.image import DwiImage
from septum.dmri.odf import OdfField, constant_solid_angle, odf_field_picture, peaks
from septum.experiment.protocol import PATCH

ORDER = 8
SMOOTH = 0.006
SHOWN = 48
# The bvec frame as the picture's own axes.
AXES = np.diag([-1.0, 1.0, 1.0, 1.0])


def used_most(use: Float, axis: int) -> Float:
    """How often each atom of one side (0 angular, 1 spatial) is used, from counts of pairs."""
    return np.asarray(use.sum(axis=1 - axis) if use.ndim == 2 else use, dtype=np.float64)


def angular_sheet(atoms: Float, directions: Float, use: Float, title: str) -> Any:
    """Angular atoms (G, r) as orientation distributions, the most used first, row by row."""
    order = np.argsort(-use, kind="stable")[:SHOWN]
    columns = min(12, len(order))
    rows = -(-len(order) // columns)
    coefficients = np.zeros((columns, rows, 1, len(degrees(ORDER))))
    mask = np.zeros((columns, rows, 1), dtype=bool)
    for k, atom in enumerate(order):
        place = (k % columns, rows - 1 - k // columns, 0)
        coefficients[place] = _shape(atoms[:, atom], directions)
        mask[place] = True
    field = OdfField(coefficients.astype(np.float32), ORDER, mask, AXES)
    figure = odf_field_picture(field, background=np.zeros(mask.shape), axis=2, index=0, title=title, width=9.0)
    return _without_anatomy(figure)


def joint_fields(angular: Float, spatial: Float, directions: Float, use: Float, title: str, count: int = 8) -> Any:
    """The pairs of atoms used most often, each as a field of P x P orientation distributions."""
    order = np.argsort(-use, axis=None, kind="stable")[:count]
    columns = min(4, count)
    rows = -(-len(order) // columns)
    step = PATCH + 1
    shape = (columns * step - 1, rows * step - 1, 1)
    coefficients = np.zeros((*shape, len(degrees(ORDER))))
    mask, shade = np.zeros(shape, dtype=bool), np.zeros(shape)
    for k, pair in enumerate(order):
        a, s = np.unravel_index(pair, use.shape)
        weight = _upright(spatial[:, s]).reshape(PATCH, PATCH)
        weight = np.clip(weight / max(float(np.abs(weight).max()), 1e-12), 0.0, None)
        x, y = step * (k % columns), step * (rows - 1 - k // columns)
        part = (slice(x, x + PATCH), slice(y, y + PATCH), 0)
        coefficients[part] = weight[..., None] * _shape(angular[:, a], directions)
        mask[part] = weight > 0.1
        shade[part] = 0.15 + 0.5 * weight
    mask[0, 0, 0] = mask[-1, -1, 0] = True  # the picture's corners
    field = OdfField(coefficients.astype(np.float32), ORDER, mask, AXES)
    figure = odf_field_picture(
        field, background=shade, axis=2, index=0, window=(slice(None), slice(None)), title=title, width=9.0
    )
    for k in range(len(order)):
        _frame(figure, step * (k % columns), step * (rows - 1 - k // columns))
    return _without_anatomy(figure)


def funk_radon(signal: Float, directions: Float) -> Float:
    """Coefficients of the orientation distribution of a signal (G,), without a logarithm."""
    harmonics = basis(directions, ORDER)
    penalty = np.diag(SMOOTH * laplace_beltrami(ORDER) ** 2)
    fitted = np.linalg.solve(harmonics.T @ harmonics + penalty, harmonics.T @ signal)
    return np.asarray(eval_legendre(degrees(ORDER), 0.0) * fitted)


def field_of(
    b0: Float, weighted: Float, gradients: Gradients, affine: ArrayLike, mask: NDArray[np.bool_], order: int = ORDER
) -> OdfField:
    """The orientation distributions of one slice from its b0 (X, Y) and weighted volumes (X, Y, G)."""
    chosen = np.concatenate([gradients.b0s[:1], gradients.weighted])
    data = np.concatenate([b0[..., None], np.maximum(weighted, 0.0)], axis=-1)[:, :, None, :]
    table = (gradients.bvals[chosen], gradients.bvecs[chosen])
    image = DwiImage.from_arrays(data.astype(np.float32), table, np.asarray(affine, dtype=np.float64))
    return constant_solid_angle(image, order=order, mask=mask[:, :, None])


def close_up(field: OdfField, window: tuple[slice, slice], title: str) -> Any:
    """A window of one slice."""
    return odf_field_picture(field, axis=2, index=0, window=window, title=title, width=9.0)


def main_direction(field: OdfField) -> Float:
    """The highest peak of each voxel of one slice, unit vectors (X, Y, 3), zero where there is none."""
    return np.asarray(peaks(field, n_peaks=1).directions[:, :, 0, 0], dtype=np.float64)


def _upright(atom: Float) -> Float:
    """An atom and its opposite are the same: the one with the positive mean, or the larger positive values."""
    mean = float(atom.mean())
    if abs(mean) > 0.02 * float(np.abs(atom).max(initial=1e-12)):
        return atom if mean > 0 else -atom
    return atom if float((atom**3).sum()) >= 0 else -atom


def _shape(atom: Float, directions: Float) -> Float:
    """The orientation distribution of an angular atom, of the two signs the one with the sharper peaks."""
    coefficients = funk_radon(atom, directions)
    mean = float(atom.mean())
    if abs(mean) > 0.02 * float(np.abs(atom).max(initial=1e-12)):
        return coefficients if mean > 0 else -coefficients
    values = basis(directions, ORDER) @ coefficients
    return coefficients if float(((values - values.mean()) ** 3).sum()) >= 0 else -coefficients


def _frame(figure: Any, x: int, y: int) -> None:
    """A line round a patch whose lowest voxel is (x, y)."""
    from matplotlib.patches import Rectangle

    from septum.plot.style import FAINT

    square = Rectangle((x - 0.5, y - 0.5), PATCH, PATCH, facecolor="none", edgecolor=FAINT, linewidth=1.0)
    figure.axes[0].add_patch(square)


def _without_anatomy(figure: Any) -> Any:
    """A picture of atoms has no left and right of a body."""
    for axes in figure.axes:
        for text in list(axes.texts):
            text.remove()
    return figure
