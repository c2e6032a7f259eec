"""Missing entries: learn from what was observed, fill in the rest; returns (error of the fill, error of zeros)."""

import numpy as np

import septum


def main() -> tuple[float, float]:
    clean = septum.datasets.make_separable(200, noise=0.0, random_state=0).X
    mask = np.random.default_rng(0).random(clean.shape) > 0.2
    X = np.where(mask, clean, np.nan)
    est = septum.SeparableDictionaryLearning(alpha=0.05, n_atoms=(3, 8), random_state=0).fit(X, mask=mask)
    filled = est.inverse_transform(est.codes_)
    hidden = ~mask
    return float(np.std((filled - clean)[hidden])), float(np.std(clean[hidden]))


if __name__ == "__main__":
    fill, zeros = main()
    print(f"error of the hidden entries: {fill:.4f}; of leaving them zero: {zeros:.4f}")
