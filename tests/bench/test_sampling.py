"""Sampling on a clock that the test moves: warm-up, rounds, disturbed samples, and when it stops."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stridetool.bench.sampling import MIN_SAMPLES, HostClock, Limits, Subject, Timing, measure


class HandClock:
    """Time passes only in calls: each says how long it takes and what of that went to others."""

    def __init__(self):
        self.seconds = 0.0
        self.taken = 0.0
        self.samples = Counter()

    def now(self):
        return self.seconds

    def time(self, call, calls):
        self.samples[calls] += 1
        start, lost = self.seconds, self.taken
        for _ in range(calls):
            call()
        return Timing(self.seconds - start, self.taken - lost, 2 * calls)

    def kernel(self, name, seconds, taken=lambda n: 0.0, **options):
        """A kernel whose n-th call takes `seconds(n)`, `taken(n)` of them by others."""
        count = [0]

        def call():
            self.seconds += seconds(count[0]) + taken(count[0])
            self.taken += taken(count[0])
            count[0] += 1

        return Subject(name, call, **options)


def run(clock, subjects, **limits):
    return measure(subjects, Limits(**limits), clock, random.Random(1))


def test_each_round_times_every_subject_once():
    clock = HandClock()
    series = run(clock, [clock.kernel("a", lambda n: 1e-3), clock.kernel("b", lambda n: 3e-3)])
    rounds = {name: [sample.round for sample in one.clean] for name, one in series.items()}
    assert rounds["a"] == rounds["b"] == list(range(len(rounds["a"])))
    assert {round(sample.seconds, 9) for sample in series["b"].clean} == {3e-3}


def test_steady_medians_end_the_run_early_and_noisy_ones_use_the_time():
    clock = HandClock()
    steady = run(clock, [clock.kernel("a", lambda n: 1e-3)], seconds=10.0, max_rounds=1000)
    assert len(steady["a"].clean) == MIN_SAMPLES
    noise = random.Random(2)
    clock = HandClock()
    noisy = run(clock, [clock.kernel("a", lambda n: noise.uniform(1e-3, 3e-3))], seconds=0.5, max_rounds=1000)
    assert len(noisy["a"].clean) > 50
    assert clock.seconds < 1.0


def test_short_calls_are_repeated_until_a_sample_is_long_enough():
    clock = HandClock()
    series = run(clock, [clock.kernel("a", lambda n: 1e-6)], sample_seconds=500e-6)
    assert series["a"].calls == 500
    assert abs(series["a"].clean[0].seconds - 1e-6) < 1e-12
    assert series["a"].clean[0].faults == 2


def test_warm_up_goes_on_until_medians_agree():
    clock = HandClock()
    series = run(clock, [clock.kernel("a", lambda n: 1e-3 * (1 + max(0, 8 - n)))], seconds=10.0)
    assert all(abs(sample.seconds - 1e-3) < 1e-9 for sample in series["a"].clean)


def test_a_slow_kernel_is_not_warmed_up_for_long():
    clock = HandClock()
    series = run(clock, [clock.kernel("a", lambda n: 1.0)], seconds=1.0)
    assert len(series["a"].clean) == MIN_SAMPLES
    assert clock.seconds < MIN_SAMPLES + 1.5


def test_disturbed_samples_are_dropped_and_counted():
    clock = HandClock()
    series = run(clock, [clock.kernel("a", lambda n: 1e-3, lambda n: 4e-3 if n % 3 == 0 else 0.0)], seconds=0.2)["a"]
    assert series.disturbed
    assert all(abs(sample.seconds - 1e-3) < 1e-9 for sample in series.clean)
    assert series.kept() == series.clean


def test_a_busy_machine_still_gives_five_samples_the_least_disturbed_ones():
    clock = HandClock()
    series = run(clock, [clock.kernel("a", lambda n: 1e-3, lambda n: 1e-3 * (1 + n % 7))], seconds=0.05)["a"]
    assert not series.clean
    kept = series.kept()
    assert len(kept) == MIN_SAMPLES
    assert [sample.round for sample in kept] == sorted(sample.round for sample in kept)
    others = [sample.lost for sample in series.disturbed if sample not in kept]
    assert max(sample.lost for sample in kept) <= min(others)


def test_prepare_runs_before_each_sample_and_outside_its_time():
    clock = HandClock()
    prepared = []

    def prepare():
        clock.seconds += 0.1
        prepared.append(True)

    series = run(clock, [clock.kernel("a", lambda n: 1e-6, prepare=prepare, one_call=True)], seconds=2.0)["a"]
    assert series.calls == 1
    assert len(prepared) == len(series.clean) + 1  # and one in the warm-up
    assert all(abs(sample.seconds - 1e-6) < 1e-9 for sample in series.clean)


def test_orders_of_rounds_are_random():
    clock, order = HandClock(), []

    def subject(name):
        def call():
            clock.seconds += 30e-3
            order.append(name)

        return Subject(name, call)

    run(clock, [subject("a"), subject("b"), subject("c")], seconds=0.01, max_rounds=30)
    rounds = {tuple(order[i : i + 3]) for i in range(len(order) - 15, len(order), 3)}
    assert len(rounds) > 1
    assert all(len(set(one)) == 3 for one in rounds)


@given(st.lists(st.floats(1e-7, 1e-2), min_size=1, max_size=4), st.integers(0, 2**32))
def test_every_subject_has_at_least_five_samples(times, seed):
    clock = HandClock()
    subjects = [clock.kernel(str(i), lambda n, t=t: t) for i, t in enumerate(times)]
    series = measure(subjects, Limits(seconds=0.01), clock, random.Random(seed))
    assert all(len(one.kept()) >= MIN_SAMPLES for one in series.values())


def test_the_host_clock_counts_sleep_as_taken():
    import time

    timing = HostClock().time(lambda: time.sleep(0.002), 2)
    assert timing.wall >= 0.004
    assert timing.taken > 0.002
