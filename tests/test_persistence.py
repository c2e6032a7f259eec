"""A model comes back as it was; a file that is not what was written is refused."""

import json
import zipfile

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import septum
from septum import InvalidInputError, SeparableDictionaryLearning, load, save
from septum.datasets import make_separable
from septum.errors import InvalidTypeError
from septum.loss import Huber
from septum.regularizer import Separable


@pytest.fixture(scope="module")
def X():
    return make_separable(80, random_state=0).X


@pytest.fixture(scope="module")
def fitted(X):
    return SeparableDictionaryLearning(0.9, n_atoms=(3, 5), random_state=0).fit(X)


@pytest.fixture
def file(fitted, tmp_path):
    path = tmp_path / "model.npz"
    save(fitted, path, extra={"position": np.arange(6).reshape(3, 2), "image": {"sha256": "abc", "shape": (2, 3)}})
    return path


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def header_of(path):
    with np.load(path, allow_pickle=False) as archive:
        return json.loads(archive["header"].tobytes())


# --- round trip -------------------------------------------------------------------------------------


def test_everything_comes_back(file, fitted, X):
    est = load(file)
    for A, B in zip(est.dictionaries_, fitted.dictionaries_, strict=True):
        np.testing.assert_array_equal(A, B)
    np.testing.assert_array_equal(est.codes_.toarray(), fitted.codes_.toarray())
    assert est.codes_.dtype == fitted.codes_.dtype
    assert est.certificate_.to_dict() == fitted.certificate_.to_dict()
    assert est.get_params() == fitted.get_params()
    assert est.shape_in_ == fitted.shape_in_
    for name in ("n_features_in_", "n_iter_", "stopped_because_", "n_samples_seen_", "n_steps_"):
        assert getattr(est, name) == getattr(fitted, name)
    for name, column in fitted.history_.items():
        for a, b in zip(est.history_[name], column, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(est.transform(X), fitted.transform(X))
    again = septum.certify(X, est.dictionaries_, est.codes_, est.alpha)
    assert again.to_dict() == est.certificate_.to_dict()


def test_extra_comes_back_and_is_kept_on_saving_again(file, tmp_path):
    est = load(file)
    assert est.extra_["image"] == {"sha256": "abc", "shape": [2, 3]}
    np.testing.assert_array_equal(est.extra_["position"], np.arange(6).reshape(3, 2))
    save(est, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == file.read_bytes()


def test_no_extra_no_attribute(fitted, tmp_path):
    save(fitted, tmp_path / "plain.npz")
    assert not hasattr(load(tmp_path / "plain.npz"), "extra_")


def test_same_estimator_same_bytes(fitted, tmp_path):
    save(fitted, tmp_path / "a")
    save(fitted, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    "params",
    [
        {"loss": Huber(2.5)},
        {"loss": "huber", "regularizer": Separable()},
        {"init": [np.eye(10)[:, :2], np.eye(100)[:, :3].astype(np.float32)], "n_atoms": [2, 3]},
        {"random_state": np.int64(3), "n_atoms": np.int32(2), "tol": np.float32(0.5), "solver": "palm"},
    ],
)
def test_parameters_come_back(X, tmp_path, params):
    est = SeparableDictionaryLearning(0.95, **{"max_iter": 3, "n_atoms": 2, **params}).fit(X[:20])
    save(est, tmp_path / "model.npz")
    got = load(tmp_path / "model.npz").get_params()
    for name, value in est.get_params().items():
        np.testing.assert_equal(got[name], tuple(value) if name == "n_atoms" and np.iterable(value) else value)


def test_what_a_file_cannot_carry_becomes_none(X, tmp_path):
    rng = np.random.default_rng(0)
    est = SeparableDictionaryLearning(0.95, n_atoms=2, random_state=rng, callback=lambda state: None).fit(X[:20])
    save(est, tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert loaded.random_state is None
    assert loaded.callback is None


def test_single_precision_and_no_atoms(X, tmp_path):
    for alpha in (0.9, 5.0):
        est = SeparableDictionaryLearning(alpha, n_atoms=2).fit(X[:20].astype(np.float32))
        save(est, tmp_path / "model.npz")
        loaded = load(tmp_path / "model.npz")
        assert {A.dtype for A in loaded.dictionaries_} == {loaded.codes_.dtype} == {np.dtype(np.float32)}
        assert loaded.codes_.shape == est.codes_.shape
        assert str(loaded.certificate_) == str(est.certificate_)


def test_partial_fit_goes_on_after_loading(X, tmp_path):
    est = SeparableDictionaryLearning(0.9, n_atoms=(3, 5), random_state=0).partial_fit(X[:40])
    save(est, tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert not hasattr(loaded, "codes_")
    assert not hasattr(loaded, "certificate_")
    for A, B in zip(est.partial_fit(X[40:]).dictionaries_, loaded.partial_fit(X[40:]).dictionaries_, strict=True):
        np.testing.assert_array_equal(A, B)


def test_feature_names_come_back(X, tmp_path):
    est = SeparableDictionaryLearning(0.5, n_atoms=2).fit(X[:, :, 0])
    est.feature_names_in_ = np.array([f"x{i}" for i in range(10)], dtype=object)
    save(est, tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").feature_names_in_, est.feature_names_in_)


def test_no_pickle_inside(file):
    for name, content in members(file).items():
        assert name.endswith(".npy")
        assert b"'descr': '|O'" not in content
    assert header_of(file)["septum_version"] == septum.__version__


# --- refusals ---------------------------------------------------------------------------------------


def test_an_unfitted_estimator_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        save(SeparableDictionaryLearning(1.0), tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


def test_another_object_is_refused(tmp_path):
    with pytest.raises(InvalidTypeError, match="not dict"):
        save({}, tmp_path / "model.npz")


def test_each_changed_array_is_noticed(file):
    content = members(file)
    for name in content:
        changed = {**content, name: content[name][:-1] + bytes([content[name][-1] ^ 1])} if content[name] else content
        rewrite(file, changed)
        with pytest.raises(InvalidInputError, match=r"changed after it was written|no septum model|damaged"):
            load(file)


def test_an_edited_certificate_is_noticed(file):
    content = members(file)
    edited = content["header.npy"].replace(b'"improvable"', b'"undecided!"')
    assert edited != content["header.npy"]
    rewrite(file, {**content, "header.npy": edited})
    with pytest.raises(InvalidInputError, match="does not match its seal"):
        load(file)


def test_missing_and_added_arrays_are_noticed(file):
    content = members(file)
    rewrite(file, {name: data for name, data in content.items() if name != "dictionary/1.npy"})
    with pytest.raises(InvalidInputError, match="missing or added"):
        load(file)
    rewrite(file, {**content, "dictionary/7.npy": content["dictionary/1.npy"]})
    with pytest.raises(InvalidInputError, match="missing or added"):
        load(file)


def test_a_cut_or_flipped_file_is_refused(file):
    whole = file.read_bytes()
    for share in (0.0, 0.1, 0.5, 0.99):
        file.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(InvalidInputError, match="model"):
            load(file)
    middle = len(whole) // 2
    file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    with pytest.raises(InvalidInputError):
        load(file)


def test_foreign_files_are_refused(tmp_path):
    text, single, archive, pickled = (tmp_path / name for name in ("a.txt", "b.npy", "c.npz", "d.npy"))
    text.write_text("not a model")
    np.save(single, np.arange(3))
    np.savez(archive, header=np.arange(3))
    np.save(pickled, np.array([{}], dtype=object))
    for path in (text, single, archive, pickled):
        with pytest.raises(InvalidInputError, match="no septum model"):
            load(path)
    for path in (tmp_path, tmp_path / "absent.npz"):
        with pytest.raises(InvalidInputError, match="cannot read"):
            load(path)


def test_a_newer_format_says_so(file):
    from septum.persistence import _write_archive

    header = {**header_of(file), "format_version": 99, "septum_version": "9.9"}
    _write_archive(file, header, {})
    with pytest.raises(InvalidInputError, match=r"format version 99 .written by septum 9.9.*update septum"):
        load(file)


def test_a_sealed_but_incomplete_file_is_refused(file):
    from septum.persistence import FORMAT, FORMAT_VERSION, _write_archive

    _write_archive(file, {"format": FORMAT, "format_version": FORMAT_VERSION, "arrays": {}}, {})
    with pytest.raises(InvalidInputError, match="no complete septum model"):
        load(file)


class Mine:
    """A user's own loss."""

    name, lipschitz, dual_limit = "mine", 1.0, np.inf

    def value(self, error):
        return 0.5 * error * error

    def influence(self, error):
        return error

    conjugate = value

    def fenchel_young(self, error, q):
        return 0.5 * (error - q) ** 2


def test_a_loss_of_the_users_own_is_refused(X, tmp_path):
    est = SeparableDictionaryLearning(0.95, n_atoms=1, max_iter=2, loss=Mine(), solver="palm").fit(X[:10])
    with pytest.raises(InvalidInputError, match="no class of septum"):
        save(est, tmp_path / "model.npz")


@pytest.mark.parametrize("extra", [{"a": object()}, {"a": np.array([{}], dtype=object)}, {3: "x"}, {"a": [{1, 2}]}])
def test_extra_that_a_file_cannot_carry_is_refused(fitted, tmp_path, extra):
    with pytest.raises(InvalidTypeError, match="extra"):
        save(fitted, tmp_path / "model.npz", extra=extra)
    assert not list(tmp_path.iterdir())


# --- whole or not at all -----------------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_file(file, fitted, monkeypatch):
    before = file.read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InvalidInputError, match="No space left"):
        save(fitted, file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_folder_that_does_not_exist(fitted, tmp_path):
    with pytest.raises(InvalidInputError, match="cannot write"):
        save(fitted, tmp_path / "nowhere" / "model.npz")
