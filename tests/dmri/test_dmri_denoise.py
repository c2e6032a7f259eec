"""Denoising from end to end on small simulated volumes: better, the same every time, and clear when it cannot."""

import numpy as np
import pytest

import septum
from septum.dmri import model as modelling
from septum.dmri import multitensor, rician
from septum.dmri.band import Band, Sums, bands, sweep
from septum.dmri.contrast import Groups, group
from septum.dmri.denoise import Denoised, make_settings, run
from septum.dmri.gradient import Gradients
from septum.dmri.image import DwiImage
from septum.errors import InvalidInputError

SNR = 15


@pytest.fixture(scope="module")
def phantom():
    return multitensor.simulate(shape=(20, 20, 8), snr=SNR, seed=7)


@pytest.fixture(scope="module")
def table(phantom):
    return phantom.gradients.bvals, phantom.gradients.bvecs


@pytest.fixture(scope="module")
def denoised(phantom, table) -> Denoised:
    return septum.dmri.denoise(phantom.data, table, n_patches=60, full_output=True, n_jobs=2)


def error(estimate, phantom):
    return float(np.sqrt(np.mean((estimate - phantom.truth) ** 2)))


def test_it_is_far_closer_to_the_truth(phantom, denoised):
    raw = rician.correct(phantom.data, 1 / SNR)
    assert error(denoised.data, phantom) < 0.4 * error(raw, phantom)


def test_better_than_the_plain_local_principal_components(phantom, denoised):
    from dipy.denoise.localpca import mppca

    peer = rician.correct(np.maximum(mppca(phantom.data, patch_radius=2), 0), denoised.noise.sigma)
    assert error(denoised.data, phantom) < error(peer, phantom)


def test_every_stage_earns_its_place(phantom, table, denoised):
    plain = septum.dmri.denoise(phantom.data, table, model=False, n_passes=0)
    second = septum.dmri.denoise(phantom.data, table, model=False)
    first = septum.dmri.denoise(phantom.data, table, model=denoised.model, n_passes=0)
    assert error(second, phantom) < error(plain, phantom)
    assert error(first, phantom) < error(plain, phantom)
    assert error(denoised.data, phantom) < error(second, phantom)


def test_threads_and_repeats_give_the_same_bits_and_the_input_stays(phantom, table, denoised):
    before = phantom.data.copy()
    again = septum.dmri.denoise(phantom.data, table, n_patches=60, n_jobs=1)
    assert np.array_equal(again, denoised.data)
    assert np.array_equal(phantom.data, before)


def test_a_temporary_file_gives_the_same_bits(phantom, table, denoised):
    image = DwiImage.from_arrays(phantom.data, table)
    found = run(image, image.gradients, make_settings(n_patches=60, n_jobs=2), model=denoised.model, memory=0)
    assert isinstance(found.data, np.memmap)
    assert np.array_equal(found.data, denoised.data)


def test_the_maps_say_what_was_done(phantom, denoised):
    assert denoised.noise.sigma == pytest.approx(1 / SNR, rel=0.05)
    assert denoised.components.shape == phantom.data.shape[:3]
    assert np.all((denoised.components > 0) & (denoised.components < 65))
    expected = ((phantom.data - denoised.data) ** 2).mean(axis=-1)
    assert np.allclose(denoised.variance_removed, expected, rtol=1e-4)


def test_the_certificate_is_that_of_the_samples(phantom, table, denoised):
    model = denoised.model
    image = DwiImage.from_arrays(phantom.data, table)
    again, own = modelling.recertify(model, image, denoised.inside, lambda: denoised.noise)
    assert own
    assert again.attainment == pytest.approx(model.certificate.attainment, abs=1e-9)
    other = DwiImage.from_arrays(phantom.with_noise(SNR, seed=8).data, table)
    fresh, own = modelling.recertify(model, other, denoised.inside, lambda: denoised.noise)
    assert not own
    assert fresh.stationarity < 1e-3
    assert 0 < fresh.attainment <= 1


def test_a_saved_model_denoises_the_same(phantom, table, denoised, tmp_path):
    path = tmp_path / "model.npz"
    denoised.model.save(path)
    assert np.array_equal(septum.dmri.denoise(phantom.data, table, model=path), denoised.data)


def test_outside_the_mask_nothing_matters_and_all_is_zero(phantom, table):
    mask = np.ones(phantom.data.shape[:3], dtype=bool)
    mask[:6] = False
    spoiled = phantom.data.copy()
    spoiled[:6] = np.nan
    zeroed = np.where(mask[..., None], phantom.data, 0)
    one = septum.dmri.denoise(spoiled, table, mask=mask, model=False)
    assert np.isfinite(one).all()
    assert np.all(one[:6] == 0)
    assert np.array_equal(one, septum.dmri.denoise(zeroed, table, model=False))


def test_units_do_not_matter(phantom, table):
    one = septum.dmri.denoise(phantom.data, table, model=False)
    other = septum.dmri.denoise(phantom.data * np.float32(1024), table, model=False)
    assert np.allclose(other, 1024 * one, rtol=1e-3, atol=2)


@pytest.mark.parametrize("patch", [(12, 12), 3, (4, 5, 2)])
@pytest.mark.parametrize("centre", [True, False])
def test_any_patch_centred_or_not(phantom, table, patch, centre):
    out = septum.dmri.denoise(phantom.data, table, patch=patch, centre=centre, n_patches=20)
    assert error(out, phantom) < 0.6 * error(phantom.data, phantom)


def test_gaussian_noise_keeps_its_sign(phantom, table):
    data = phantom.with_noise(SNR, noise="gaussian").data
    out = septum.dmri.denoise(data, table, magnitude=False, model=False)
    assert error(out, phantom) < 0.4 * error(data, phantom)


def test_a_small_image_has_smaller_patches(phantom, table):
    data = phantom.data[6:14, 6:14, 3:6]
    out = septum.dmri.denoise(data, table, sigma=1 / SNR, n_patches=8)
    assert np.isfinite(out).all()
    assert out.shape == data.shape


def test_a_sigma_map_is_used(phantom, table):
    sigma = np.full(phantom.data.shape[:3], 1 / SNR)
    one = septum.dmri.denoise(phantom.data, table, sigma=sigma, model=False)
    other = septum.dmri.denoise(phantom.data, table, sigma=1 / SNR, model=False)
    assert np.allclose(one, other, atol=1e-5)


def test_pure_noise_needs_no_dictionary(table):
    random = np.random.default_rng(0)
    data = 100 + random.standard_normal((12, 12, 6, 65))
    found = septum.dmri.denoise(data, table, n_patches=10, full_output=True)
    assert np.abs(found.data - 100).std() < 0.3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": np.zeros((8, 8, 8, 65))}, "zero"),
        ({"data": np.full((8, 8, 8, 65), 3.0)}, "the same"),
        ({"data": np.full((8, 8, 8, 65), np.nan)}, "NaN"),
        ({"mask": np.ones((3, 3, 3))}, "shape"),
        ({"mask": np.zeros((20, 20, 8))}, "empty"),
        ({"sigma": -1}, "sigma"),
        ({"n_coils": 0}, "coils"),
        ({"patch": 1}, "too small"),
        ({"n_passes": -1}, "n_passes"),
    ],
)
def test_bad_input_is_named(phantom, table, change, words):
    options = {"data": phantom.data, "gtab": table} | change
    with pytest.raises(InvalidInputError, match=words):
        septum.dmri.denoise(**options)


def test_too_few_directions(phantom, table):
    few = (table[0][:5], table[1][:5])
    with pytest.raises(InvalidInputError, match="at least 6"):
        septum.dmri.denoise(phantom.data[..., :5], few)


def test_a_model_of_another_scheme_is_refused(phantom, table, denoised):
    turned = (table[0], table[1][:, [1, 2, 0]])
    with pytest.raises(InvalidInputError, match="directions"):
        septum.dmri.denoise(phantom.data, turned, model=denoised.model)
    fewer = (table[0][:40], table[1][:40])
    with pytest.raises(InvalidInputError, match="made for"):
        septum.dmri.denoise(phantom.data[..., :40], fewer, model=denoised.model)


# --- its parts -------------------------------------------------------------------------------------------


def scheme(bvals):
    random = np.random.default_rng(0)
    vectors = random.standard_normal((len(bvals), 3))
    return Gradients(np.array(bvals, float), vectors / np.linalg.norm(vectors, axis=1)[:, None])


@pytest.mark.parametrize("bvals", [[0] + [1000] * 9, [0, 0, 0] + [1000] * 7 + [2000] * 8, [0] + [500, 900, 1300, 2000] * 3])
def test_means_and_contrasts_are_the_values(bvals):
    groups = group(scheme(bvals))
    values = np.random.default_rng(1).random((4, 3, len(bvals)))
    means = groups.means(values)
    contrasts = groups.contrasts(values, means)
    assert np.allclose(groups.joined(means, contrasts), values)
    assert np.allclose((means**2).sum(axis=-1) + (contrasts**2).sum(axis=-1), (values**2).sum(axis=-1))
    assert sum(len(m) for m in groups.members) == len(bvals)


def test_without_groups_nothing_is_centred():
    groups = Groups((), 5)
    values = np.random.default_rng(0).random((2, 5))
    assert np.array_equal(groups.contrasts(values, groups.means(values)), values)


@pytest.mark.parametrize("per_band", [1, 2, 5])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_bands_add_up_to_the_plain_sums(per_band, n_jobs):
    starts, size, depth = np.array([0, 2, 4, 6, 7]), 4, 11
    values = np.random.default_rng(0).random((2, 3, depth, 2)).astype(np.float32)
    total, weight = np.zeros_like(values), np.zeros(values.shape[:3], np.float32)
    for s in starts:
        total[:, :, s : s + size] += (s + 1) * values[:, :, s : s + size]
        weight[:, :, s : s + size] += s + 1

    def work(band: Band) -> Sums:
        part = values[:, :, band.slices]
        sums = Sums(np.zeros_like(part), np.zeros(part.shape[:3], np.float32), np.zeros(part.shape[:3], np.float32))
        for s in band.local:
            w = s + band.low + 1
            sums.total[:, :, s : s + size] += w * part[:, :, s : s + size]
            sums.weight[:, :, s : s + size] += w
        return sums

    out = np.full_like(values, np.nan)

    def finish(part, mean, extra):
        assert np.isnan(out[:, :, part]).all()
        out[:, :, part] = mean

    sweep(bands(starts, size, per_band), work, finish, n_jobs, lambda fraction: None)
    assert np.allclose(out, total / weight[..., None], rtol=1e-5)
