"""The default solver: seeded from the known optimum, exact steps, growth by total decrease, then pruning.

    screen -> seed -> descend <-> grow -> prune or exchange -> codes to a small gap

1. Samples that no dictionary could serve are left out (`working.active_samples`, exact).
2. Dictionaries start from the singular pairs above alpha (`seeding`).
3. Exact atom steps and exact codes lower f to a stationary point (`descent`).
4. While the attainment is below 1 - tol, the atoms that promise the largest total decrease for each atom
   added come in (`growth`), a few at a time, fewer as the goal comes near.
5. At the goal, atoms are taken out one by one as long as it is kept (`pruning`). At the user's caps, the
   least useful atoms are exchanged for the most promising ones as long as that pays.

f never rises from one recorded step to the next: pruning gives back only what the same step gained beyond
the goal.
"""

import numpy as np
from scipy import sparse

from septum.array import Float
from septum.factors import Factors
from septum.kronecker import sizes
from septum.learning.descent import descend
from septum.learning.growth import propose, room_left
from septum.learning.history import Learned, Recorder, Settings
from septum.learning.pruning import cheapest_removals, drop_unused, without
from septum.learning.seeding import random_seeds, spectral_seeds
from septum.learning.working import Working, active_samples
from septum.problem import Problem

ROUNDS = 40
GROWTH_SHARE = 0.1
FINAL_GAP = 1e-9


def learn(problem: Problem, settings: Settings) -> Learned:
    """Learn dictionaries and codes for a problem with the paper's regulariser."""
    recorder = Recorder(problem, settings)
    active = active_samples(problem)
    if active.size == 0:
        return _zero(problem, settings, recorder)
    search = _Search(problem, settings, recorder, active)
    reason = search.run()
    return search.finish(reason)


class _Search:
    def __init__(self, problem: Problem, settings: Settings, recorder: Recorder, active: Float) -> None:
        self.problem, self.settings, self.recorder, self.active = problem, settings, recorder, active
        self.zero_elsewhere = recorder.zero - float(recorder.zero_by_sample[active].sum())
        self.total = recorder.decrease
        self.working = self._start()
        self.inner: list[float] = []

    # --- the loop ---------------------------------------------------------------------------------

    def run(self) -> str:
        self.descend()
        if self.reached:
            self.prune()
        self.record()
        while True:
            reason = self.recorder.reason_to_stop()
            if reason is not None:
                break
            reason = self.grow()
            if reason is not None:
                break
        if reason == _AT_CAPS and self.settings.is_capped:
            self.exchange()
        return reason

    def grow(self) -> str | None:
        """One growth step and the descent after it; a reason to stop when there is nothing to gain."""
        working = self.working
        room = room_left(working, self.settings.caps)
        if not any(room):
            return _AT_CAPS
        goal = (1.0 - self.settings.tol) * self.total - working.gain
        count = max(1, int(np.ceil(GROWTH_SHARE * working.n_atoms)))
        proposal = propose(working, count=count, needed=goal, room=room)
        if proposal.count == 0:
            return _NOTHING_TO_ADD if all(room) else _AT_CAPS
        before = working.gain
        self.working = working.extended(proposal.atoms)
        self.working.solve_codes()
        self.descend()
        if self.reached:
            self.prune()
        self.record()
        if self.working.gain - before < self.settings.min_gain * self.total and not self.reached:
            return f"a growth step added less than {self.settings.min_gain:g} of attainment"
        return None

    def descend(self) -> None:
        """Descent until a round gains less than a tenth of `min_gain`, or a ten-thousandth of what is missing."""
        missing = max(self.total - self.working.gain, 0.0)
        trace = descend(
            self.working,
            tol=max(self.round_gain, 1e-4 * missing),
            max_rounds=ROUNDS,
            should_stop=lambda: self.recorder.out_of_time,
        )
        self.inner.extend(self.recorder.zero - gain for gain in trace)

    @property
    def round_gain(self) -> float:
        """What a round of a descent must gain for another to follow."""
        return max(0.1 * self.settings.min_gain, 1e-6) * self.total

    @property
    def reached(self) -> bool:
        return self.working.gain >= (1.0 - self.settings.tol) * self.total

    def record(self) -> None:
        self.working = drop_unused(self.working)
        factors = Factors(self.working.dictionaries, self.working.codes)
        self.recorder.record(factors, self.objective, self.polar(), self.inner)
        self.inner = []

    @property
    def objective(self) -> float:
        return self.recorder.zero - self.working.gain

    def polar(self) -> float:
        """max_t polar(R_t) / alpha; screened samples stay at or below 1."""
        return float(self.problem.regularizer.polar(self.working.force()).upper.max()) / self.working.alpha

    # --- after the goal or the caps ---------------------------------------------------------------

    def prune(self) -> None:
        """Take out the atom missed least, as long as a short descent keeps the goal."""
        goal = (1.0 - self.settings.tol) * self.total
        while not self.recorder.out_of_time:
            slack = self.working.gain - goal
            for removal in cheapest_removals(self.working)[:2]:
                if removal.loss > 4.0 * slack + 2e-3 * self.total:
                    continue
                trial = without(self.working, removal)
                descend(trial, tol=self.round_gain, max_rounds=12)
                if trial.gain >= goal:
                    self.working = drop_unused(trial)
                    break
            else:
                break
        # What pruning gave back is no part of the descent: the trace keeps what the result still has.
        self.inner = [value for value in self.inner if value >= self.objective] + [self.objective]

    def exchange(self) -> None:
        """At the caps: swap the atoms missed least for the most promising ones while that pays."""
        failures = 0
        while failures < 3 and not self.recorder.out_of_time:
            if len(self.recorder.steps) >= self.settings.max_iter or self.recorder.asked_to_stop:
                return
            before = self.working.gain
            trial = self._exchanged()
            if trial is None:
                return
            descend(trial, tol=self.round_gain, max_rounds=ROUNDS)
            if trial.gain > before:
                self.working = trial
                self.record()
            failures = 0 if trial.gain - before >= self.settings.min_gain * self.total else failures + 1

    def _exchanged(self) -> Working | None:
        trial = self.working
        count = max(1, trial.n_atoms // 25)
        for removal in cheapest_removals(trial, candidates=2 * count)[:count]:
            names = [np.arange(size) for size in trial.sizes]
            if removal.atom >= trial.sizes[removal.mode] or trial.sizes[removal.mode] == 1:
                continue
            names[removal.mode] = np.delete(names[removal.mode], removal.atom)
            trial = trial.restricted(names)
        trial.solve_codes()
        room = room_left(trial, self.settings.caps)
        proposal = propose(trial, count=count, needed=np.inf, room=room)
        if proposal.count == 0:
            return None
        trial = trial.extended(proposal.atoms)
        trial.solve_codes()
        return trial

    # --- start and finish -------------------------------------------------------------------------

    def _start(self) -> Working:
        samples, settings = self.problem.samples, self.settings
        decrease = self.recorder.decrease_by_sample[self.active]
        energy = float(self.recorder.zero_by_sample[self.active].sum())
        working = Working(
            X=np.ascontiguousarray(samples.data[self.active], dtype=np.float64),
            mask=None if samples.mask is None else samples.mask[self.active],
            loss=self.problem.loss,
            alpha=self.problem.alpha,
            decrease=decrease,
            code_tol=float(np.clip(1e-4 * decrease.sum() / max(energy, 1e-300), 1e-9, 1e-4)),
            n_jobs=settings.n_jobs,
            dictionaries=[],
            codes=sparse.csr_array((self.active.size, 0)),
            value=np.zeros(self.active.size),
        )
        seeds = self._seeds(working)
        empty = sparse.csr_array((self.active.size, int(np.prod(sizes(seeds), dtype=np.int64))))
        working.set_factors(seeds, empty)
        working.solve_codes()
        if working.codes.nnz == 0 and settings.start is None:
            # Zero codes are a critical point of every dictionary that misses the data: restart from it.
            seeds = spectral_seeds(working, settings, tuple(1 for _ in settings.caps))
            empty = sparse.csr_array((self.active.size, int(np.prod(sizes(seeds), dtype=np.int64))))
            working.set_factors(seeds, empty)
            working.solve_codes()
        return working

    def _seeds(self, working: Working) -> list[Float]:
        settings = self.settings
        if settings.start is not None:
            return [_unit(A) for A in settings.start]
        if settings.init == "random":
            return random_seeds(working, settings)
        return spectral_seeds(working, settings, settings.caps)

    def finish(self, reason: str) -> Learned:
        """Codes to a small gap, atoms in order of use, the screened samples' empty codes put back."""
        self.working.solve_codes(tol=FINAL_GAP)
        self.working = drop_unused(self.working)
        self.inner.append(self.objective)
        self.record()
        factors = Factors(self.working.dictionaries, self.working.codes).ordered()
        return Learned(
            Factors(factors.dictionaries, _spread(factors.codes, self.active, self.problem.n_samples)),
            self.recorder.history(),
            reason,
            len(self.recorder.steps),
        )


_AT_CAPS = "every mode is at its cap of atoms"
_NOTHING_TO_ADD = "no atom could be found that lowers the objective"


def _zero(problem: Problem, settings: Settings, recorder: Recorder) -> Learned:
    """alpha is so large that zero codes are optimal: one unit atom for each mode and no codes."""
    atoms = [np.eye(d, 1) for d in problem.shape]
    factors = Factors(atoms, sparse.csr_array((problem.n_samples, 1)))
    polar = 0.0
    for part in problem.parts():
        force = problem.loss.influence(problem.data(part))
        polar = max(polar, float(problem.regularizer.polar(force).upper.max()) / problem.alpha)
    recorder.record(factors, recorder.zero, polar, [recorder.zero])
    return Learned(factors, recorder.history(), "alpha is so large that zero codes are optimal", 1)


def _unit(A: Float) -> Float:
    norm = np.linalg.norm(A, axis=0)
    kept = norm > 0
    return np.asarray(A[:, kept] / norm[kept], dtype=np.float64)


def _spread(codes: sparse.csr_array, rows: Float, n_samples: int) -> sparse.csr_array:
    """Codes of some samples as codes of all of them."""
    counts = np.zeros(n_samples, dtype=np.int64)
    counts[rows] = np.diff(codes.indptr)
    pointer = np.concatenate([[0], np.cumsum(counts)])
    return sparse.csr_array((codes.data, codes.indices, pointer), shape=(n_samples, codes.shape[1]))

