"""The second pass: each patch filtered in the frame that the estimate so far suggests.

A block of neighbouring patches shares an angular basis, the principal axes of the estimate there. Along them, and
in the cosine basis of each patch's voxels, signal and noise part further than along either alone. Every joint
coefficient of the data is multiplied by the gain e^4 / (e^4 + c_k), e the same coefficient of the estimate along
axis k. Near the noise that is as strict as Wiener's e^2 / (e^2 + 1), but it leaves strong coefficients as they are,
so that fibres keep their contrast. c_k grows slowly with the estimate's power along the axis: strong axes gather
in few coefficients, weak ones are spread. Patches are averaged with weight 1 / (1 + the noise they keep).

The means, which have no angular redundancy, are filtered by the cosines alone (`cosine_layer`): first kept
above a threshold, then by Wiener's gain from that.
"""

import numpy as np

from septum.coding.compiled import compiled
from septum.dmri.patch import count_inside, gather
from septum.dmri.shrinkage import leading

# Axes along which the estimate has less than this share of the noise's variance are left out.
FAINT = 0.02
# c_k = STRICTNESS * (mean square of the estimate along axis k)^GROWTH, in units of the noise.
STRICTNESS = np.float32(0.5)
GROWTH = np.float32(0.35)
# The noise's variance in the gain of the means, a little below 1: an estimate has lost some of the signal's energy.
CAUTION = np.float32(0.7)


@compiled
def wiener_layer(data, pilot, inside, xs, ys, zs, shape, per_block, cosines, total, weight, extra):
    """Filter all patches that start at zs (one block deep) into the sums; `extra` sums the components kept."""
    n = data.shape[3]
    depth = zs[-1] - zs[0] + shape[2]
    for i in range(0, len(xs), per_block):
        last_x = min(i + per_block, len(xs))
        for j in range(0, len(ys), per_block):
            last_y = min(j + per_block, len(ys))
            x, y, z = xs[i], ys[j], zs[0]
            box = (xs[last_x - 1] - x + shape[0], ys[last_y - 1] - y + shape[1], depth)
            count = count_inside(inside, x, y, z, box)
            if count == 0:
                continue
            n_voxels = box[0] * box[1] * box[2]
            noisy = np.empty((n_voxels, n), np.float32)
            known = np.empty((n_voxels, n), np.float32)
            gather(data, x, y, z, box, noisy)
            gather(pilot, x, y, z, box, known)
            basis = leading(known, FAINT * count, n)
            if basis.shape[1] == 0:
                _add(
                    total,
                    weight,
                    extra,
                    x,
                    y,
                    z,
                    box,
                    noisy,
                    np.ones(n_voxels, np.float32),
                    np.zeros(n_voxels, np.float32),
                    np.float32(0.0),
                )
                continue
            first = np.dot(noisy, basis)
            second = np.dot(known, basis)
            level = strictness(second, count)
            summed = np.zeros_like(first)
            weights = np.zeros(n_voxels, np.float32)
            kept = np.zeros(n_voxels, np.float32)
            for a in range(i, last_x):
                for b in range(j, last_y):
                    for c in range(len(zs)):
                        place = (xs[a] - x, ys[b] - y, zs[c] - z)
                        _filter_one(first, second, box, place, shape, cosines, level, summed, weights, kept)
            _add(total, weight, extra, x, y, z, box, np.dot(summed, basis.T), weights, kept, np.float32(1.0))


@compiled
def strictness(estimate, count):
    """c_k of every axis, from the estimate along the axes (n_voxels, n_axes), of which `count` voxels are inside."""
    level = np.empty(estimate.shape[1], np.float32)
    for k in range(estimate.shape[1]):
        power = np.float32(0.0)
        for row in range(estimate.shape[0]):
            power += estimate[row, k] * estimate[row, k]
        level[k] = STRICTNESS * max(power / np.float32(count), np.float32(FAINT)) ** GROWTH
    return level


@compiled
def _filter_one(first, second, box, place, shape, cosines, level, summed, weights, kept):
    """One patch of a block, in the block's angular coordinates."""
    x, y, z = place
    n_voxels, rank = cosines.shape[0], first.shape[1]
    data = np.empty((n_voxels, rank), np.float32)
    guess = np.empty((n_voxels, rank), np.float32)
    row = 0
    for p in range(shape[0]):
        for q in range(shape[1]):
            start = ((x + p) * box[1] + y + q) * box[2] + z
            for r in range(start, start + shape[2]):
                for k in range(rank):
                    data[row, k] = first[r, k]
                    guess[row, k] = second[r, k]
                row += 1
    data = np.dot(cosines, data)
    guess = np.dot(cosines, guess)
    noise = np.float32(0.0)
    components = np.float32(0.0)
    for row in range(n_voxels):
        for k in range(rank):
            fourth = guess[row, k] ** 4
            gain = fourth / (fourth + level[k])
            data[row, k] *= gain
            noise += gain * gain
            components += gain
    data = np.dot(cosines.T, data)
    share = np.float32(1.0) / (np.float32(1.0) + noise / np.float32(n_voxels))
    components = share * components / np.float32(n_voxels)
    row = 0
    for p in range(shape[0]):
        for q in range(shape[1]):
            start = ((x + p) * box[1] + y + q) * box[2] + z
            for r in range(start, start + shape[2]):
                for k in range(rank):
                    summed[r, k] += share * data[row, k]
                weights[r] += share
                kept[r] += components
                row += 1


@compiled
def _add(total, weight, extra, x, y, z, box, block, weights, kept, scale):
    row = 0
    n = total.shape[3]
    for i in range(x, x + box[0]):
        for j in range(y, y + box[1]):
            for k in range(z, z + box[2]):
                for v in range(n):
                    total[i, j, k, v] += scale * block[row, v]
                weight[i, j, k] += weights[row]
                extra[i, j, k] += kept[row]
                row += 1


@compiled
def cosine_layer(data, pilot, inside, xs, ys, z, shape, cosines, threshold, total, weight):
    """Filter every map (last axis) of one layer: above `threshold`, or by the pilot's gain where it is 0."""
    n_voxels, n = cosines.shape[0], data.shape[3]
    patch = np.empty((n_voxels, n), np.float32)
    guess = np.empty((n_voxels, n), np.float32)
    for x in xs:
        for y in ys:
            if count_inside(inside, x, y, z, shape) == 0:
                continue
            gather(data, x, y, z, shape, patch)
            values = np.dot(cosines, patch)
            noise = np.float32(0.0)
            if threshold > 0.0:
                for row in range(1, n_voxels):
                    for k in range(n):
                        if abs(values[row, k]) < threshold:
                            values[row, k] = 0.0
                        else:
                            noise += 1.0
                noise += n
            else:
                gather(pilot, x, y, z, shape, guess)
                known = np.dot(cosines, guess)
                for row in range(n_voxels):
                    for k in range(n):
                        square = known[row, k] * known[row, k]
                        gain = square / (square + CAUTION)
                        values[row, k] *= gain
                        noise += gain * gain
            values = np.dot(cosines.T, values)
            share = np.float32(1.0) / (np.float32(1.0) + noise)
            row = 0
            for i in range(x, x + shape[0]):
                for j in range(y, y + shape[1]):
                    for k in range(z, z + shape[2]):
                        for v in range(n):
                            total[i, j, k, v] += share * values[row, v]
                        weight[i, j, k] += share
                        row += 1
