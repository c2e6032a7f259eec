"""What a certificate means, in words that are true and that need no mathematics.

Two statements follow from a lower bound L <= f* (`septum.certificate`), whatever made the dictionaries:

* every other choice, of any size, has f' >= L, so it lowers f by at most f - L: as a share, (f - L)/f, rounded up;
* from zero codes (f(0)) the largest possible decrease is at most f(0) - L, of which f(0) - f was made: the
  attainment, rounded down.

Both are about the objective (misfit plus price of the codes) on the patches the certificate was computed
from. Neither is a distance to a noise-free image, and the words say so. The first alone flatters: most of f can be noise
that no dictionary should describe; so both are always given.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from septum.certificate import Certificate


@dataclass(frozen=True)
class Words:
    """A headline, two or three sentences, a caution, and the two shares in percent (None where there is none)."""

    headline: str
    details: tuple[str, ...]
    caution: str
    still_possible: float | None
    attained: float | None


def certificate_words(
    certificate: Certificate, *, alpha: float | None = None, n_samples: int | None = None, centring: str = ""
) -> Words:
    """The certificate for a reader who has not read the paper.

    `n_samples` and `centring` ("each patch's mean removed") say which data it is about.
    """
    f, gap = certificate.objective, max(0.0, certificate.gap)
    share = 100.0 * gap / f if f > 0 else None
    attained = 100.0 * certificate.attainment if math.isfinite(certificate.attainment) else None
    headline = _headline(share, attained)
    data = (
        "the patches it was computed from"
        if n_samples is None
        else f"the {n_samples} patches it was computed from"
    )
    if centring:
        data += f" ({centring})"
    at = "" if alpha is None else f", at α = {alpha:.4g}"
    return Words(
        headline=headline,
        details=(_score(certificate), _decrease(attained), _VERDICT[certificate.verdict]),
        caution=(
            f"This is about the score on {data}{at}: how much is left of the misfit, plus α for each unit of code. It says "
            "how good the dictionary is at that, for certain; it does not say how near the picture is to one without noise."
        ),
        still_possible=share,
        attained=attained,
    )


def at_most(percent: float) -> str:
    """A percentage rounded up to two significant digits, so that "at most" stays true."""
    if percent <= 0:
        return "0%"
    if percent < 1e-4:
        return "0.0001%"
    return f"{_rounded(percent, math.ceil):.12g}%"


def at_least(percent: float) -> str:
    """A percentage rounded down, so that "at least" stays true; close to 100 it keeps what is missing."""
    if percent >= 100:
        return "100%"
    if percent <= 0:
        return "0%"
    missing = 100.0 - percent
    if percent > 90:
        return f"{100.0 - _rounded(max(missing, 1e-4), math.ceil):.12g}%"
    return f"{_rounded(percent, math.floor):.12g}%"


def _rounded(value: float, to_integer: Callable[[float], int]) -> float:
    """Two significant digits, up or down; a hair of slack keeps 1.3 at 1.3."""
    places = 1 - math.floor(math.log10(value))
    scaled = value * 10.0**places
    slack = 1e-9 * scaled
    whole = math.ceil(scaled - slack) if to_integer is math.ceil else math.floor(scaled + slack)
    return round(whole / 10.0**places, max(0, places))


def _headline(share: float | None, attained: float | None) -> str:
    if attained is None or attained < 0:
        return "This dictionary describes the patches worse than no dictionary at all would."
    if share is None or share <= 0:
        return "No dictionary of any size can score better than this one."
    return f"No dictionary of any size can score more than {at_most(share)} better than this one."


def _score(certificate: Certificate) -> str:
    return (
        f"Its score is {_plainly(certificate.objective)} (lower is better), and it is proved that no choice of "
        f"dictionaries and codes, however large, gets below {_down(certificate.lower_bound)}."
    )


def _down(value: float) -> str:
    """Six significant digits, rounded towards minus infinity."""
    if value == 0 or not math.isfinite(value):
        return _plainly(value)
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 5)
    return _plainly(math.floor(value / step + 1e-9) * step)


def _plainly(value: float) -> str:
    """Six significant digits, without powers of ten where they can be avoided: 926 652 000."""
    if not 1e6 <= abs(value) < 1e15:
        return f"{value:.6g}".replace("-", "−")
    return f"{float(f'{value:.5e}'):,.0f}".replace(",", "\u202f").replace("-", "−")


def _decrease(attained: float | None) -> str:
    if attained is None or attained < 0:
        return "Codes of zero would score better: learning has failed, or these codes belong to other data."
    if attained >= 100:
        return "It makes all of the improvement over describing nothing that any dictionary could make."
    text = (
        "Of all the improvement over describing nothing that any dictionary could make, it makes at least "
        f"{at_least(attained)}."
    )
    if attained < 90:
        text += (
            " The rest can be out of reach for a small dictionary: with noise, the very best score asks for about "
            "one atom for every component of every patch."
        )
    return text


_VERDICT = {
    "optimal": "Verdict: optimal. Within the tolerance there is nothing better.",
    "improvable": "Verdict: improvable. Something better exists, by no more than that.",
    "undecided": "Verdict: undecided. Something better may or may not exist; if it does, it is better by no more than that.",
}
