"""Learn a compact dictionary and see how far from the best possible it is; returns (measured, expected)."""

import septum


def main() -> tuple[float, float]:
    X = septum.datasets.make_separable(300, random_state=0).X
    est = septum.SeparableDictionaryLearning(alpha=0.9, random_state=0).fit(X)
    print(est.certificate_)
    best = septum.global_optimum(X, alpha=0.9)
    print(f"{sum(A.shape[1] for A in est.dictionaries_)} atoms; the explicit optimum has {2 * best.rank}")
    return est.certificate_.attainment, 0.98


if __name__ == "__main__":
    measured, expected = main()
    print(f"attainment {measured:.4f}, asked for {expected}")
