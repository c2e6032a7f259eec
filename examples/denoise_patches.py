"""Denoise matrix samples: learn, code, refit; returns (error after, error before)."""

import numpy as np

import septum


def main() -> tuple[float, float]:
    sigma = 0.02
    made = septum.datasets.make_separable(300, noise=sigma, random_state=0)
    A, B = made.dictionaries
    clean = np.einsum("gi,tij,vj->tgv", A, made.codes.toarray(), B)
    alpha = sigma * (np.sqrt(10) + np.sqrt(100))
    est = septum.SeparableDictionaryLearning(alpha, random_state=0).fit(made.X)
    codes = septum.sparse_code(made.X, est.dictionaries_, alpha, refit=True).codes
    after = est.inverse_transform(codes) - clean
    return float(np.sqrt(np.mean(after**2))), float(np.sqrt(np.mean((made.X - clean) ** 2)))


if __name__ == "__main__":
    after, before = main()
    print(f"root mean square error: {before:.4f} before, {after:.4f} after")
