"""The accountant against brute force, printed vectors, and the faults that an accountant can have."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distp import Channel, Identity, RandomizedResponse, RestrictedLaplace, Tupling, delta, epsilon, expected_loss
from distp.errors import DistributionError, ParameterError, PrecisionError
from distp.privacy import accountant
from distp.privacy.tuples import MAX_LISTED, TupleSum, as_single_report
from distp.release.entropy import Seeded
from distp.release.sampling import Sampler
from distp.release.weights import Weights
from helpers import brute_delta, distributions, fractions, tuple_laws

P = [0.5, 0.3, 0.2, 0.0]
Q = [0.1, 0.2, 0.3, 0.4]
NU = [0.4, 0.3, 0.2, 0.1]

# Theory, section 11, V1: (dummy law, k): HS at epsilon 0, 0.5, 1, both orders.
V1 = {
    ("uniform", 0): [(0.5, 0.5), (0.3351278729, 0.4), (0.2281718172, 0.4)],
    ("uniform", 1): [(0.325, 0.325), (0.1702557459, 0.2189098412), (0.0570429543, 0.1390859086)],
    ("uniform", 2): [(0.275, 0.275), (0.1037012379, 0.1401918094), (0.0275536929, 0.0713036929)],
    ("uniform", 5): [
        (0.1904296875, 0.1904296875),
        (0.0406877097, 0.0588062921),
        (0.0029643199, 0.0143669787),
    ],
    ("given", 1): [(0.39, 0.39), (0.2226918094, 0.2951278729), (0.0912687269, 0.1881718172)],
    ("given", 2): [(0.336, 0.336), (0.1587967948, 0.2007429586), (0.0522837084, 0.0698321632)],
}


def grid_delta(p, q, nu, k, t, rtol=1e-4):
    """Evaluate by Fourier transform even where listing all multisets would be exact."""
    terms = TupleSum.of(np.asarray(p, float), np.asarray(q, float), np.asarray(nu, float), k + 1, 0.0)
    return terms.delta(t, rtol).bracket


@pytest.mark.parametrize(("law", "k"), V1)
def test_vector_v1_to_all_printed_digits_in_both_orders(law, k):
    mechanism = Tupling(Identity(4), k, None if law == "uniform" else NU)
    for eps, (forward, backward) in zip((0.0, 0.5, 1.0), V1[law, k], strict=True):
        for (a, b), expected in (((P, Q), forward), ((Q, P), backward)):
            found = delta(mechanism, a, b, eps, ordered=True)
            assert found.upper == pytest.approx(expected, abs=6e-11)
            assert found.width < 1e-12
        assert delta(mechanism, P, Q, eps).upper == pytest.approx(max(forward, backward), abs=6e-11)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_bracket_contains_brute_force_over_all_tuples(data):
    n, k = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3))
    p, q, nu = (data.draw(distributions(n)) for _ in range(3))
    eps = data.draw(st.sampled_from([0.0, 1e-9, 0.1, 0.5, 1.0, 3.0, 10.0]))
    exact = brute_delta(p, q, nu, k, math.exp(eps))
    try:
        found = delta(Tupling(Identity(n), k, nu), p, q, eps, ordered=True)
    except PrecisionError as error:  # a dummy's probability of 1e-150, say: wide, and right all the same
        found = error.bracket
    assert Fraction(found.lower) <= exact <= Fraction(found.upper)
    assert found.width <= 1e-12 or min(x for x in (*p, *q, *nu) if x > 0) < 1e-90


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_fourier_bracket_contains_brute_force_over_all_tuples(data):
    n, k = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    p, q, nu = (data.draw(distributions(n)) for _ in range(3))
    t = math.exp(data.draw(st.sampled_from([0.0, 1e-9, 0.1, 0.5, 1.0, 3.0])))
    exact = brute_delta(p, q, nu, k, t)
    found = grid_delta(p, q, nu, k, t)  # maybe wider than asked, but right all the same
    assert Fraction(found.lower) <= exact <= Fraction(found.upper)


def test_fourier_and_listing_agree_where_both_apply():
    rng = np.random.default_rng(5)
    for k in (3, 8, 20):
        p, q, nu = rng.dirichlet(np.ones(5), size=3)
        terms = TupleSum.of(p, q, nu, k + 1, 0.0)
        listed = as_single_report(terms)
        assert listed is not None
        assert listed[0].size <= 2 * MAX_LISTED
        for eps in (0.0, 0.3, 1.0, 2.0):
            one = accountant.SingleReport(*listed).delta(math.exp(eps)).bracket
            two = terms.delta(math.exp(eps), 1e-5).bracket
            assert two.lower <= one.upper
            assert one.lower <= two.upper
            assert two.width <= 1e-5 * two.upper + 1e-300


def dirac_tv(n: int, k: int, t: float) -> float:
    """Theory 4.6, 3.8: A = identity, two point masses among n outputs, by the multinomial of their counts."""
    m, total = k + 1, 0.0
    for c in range(1, m + 1):
        both = math.comb(m, c) * (2 / n) ** c * (1 - 2 / n) ** (m - c)
        if both == 0.0:
            continue
        total += both * sum(math.comb(c, j) / 2**c * max(0.0, j - t * (c - j)) for j in range(c + 1))
    return n / m * total


@pytest.mark.parametrize(
    ("k", "tv", "at_one"), [(1, 0.99638, 0.99638), (10, 0.96492, 0.96435), (100, 0.73698, 0.69716)]
)
def test_vector_v6_two_point_masses(k, tv, at_one):
    p, q = np.zeros(276), np.zeros(276)
    p[3], q[200] = 1, 1
    mechanism = Tupling(Identity(276), k)
    for eps, printed in ((0.0, tv), (1.0, at_one)):
        found = delta(mechanism, p, q, eps)
        assert found.upper == pytest.approx(printed, abs=6e-6)
        exact = dirac_tv(276, k, math.exp(eps))
        assert found.lower - 1e-12 <= exact <= found.upper + 1e-12


def test_large_tuples_contain_the_multinomial_value_of_v6():
    p, q = np.zeros(276), np.zeros(276)
    p[0], q[1] = 1, 1
    exact = dirac_tv(276, 276, math.e)
    found = delta(Tupling(Identity(276), 276), p, q, 1.0)
    assert found.lower <= exact * (1 + 1e-11)
    assert exact * (1 - 1e-11) <= found.upper
    assert found.upper == pytest.approx(0.38418, abs=6e-6)


def paper_size(seed: int = 3):
    rng = np.random.default_rng(seed)
    return (
        rng.dirichlet(np.full(276, 0.5)),
        rng.dirichlet(np.full(276, 0.5)),
        rng.dirichlet(np.full(276, 3.0)),
    )


def sampled_delta(p, q, nu, k, t, draws, seed):
    """Estimate delta by drawing tuples under p; return the mean and its standard error."""
    rng = np.random.default_rng(seed)
    values = rng.choice(p.size, size=(draws, k + 1), p=nu)
    values[:, 0] = rng.choice(p.size, size=draws, p=p)
    ratio = (q / nu)[values].sum(axis=1) / (p / nu)[values].sum(axis=1)
    gain = np.maximum(0.0, 1 - t * ratio)
    return gain.mean(), gain.std() / math.sqrt(draws)


@pytest.mark.parametrize(("k", "eps"), [(5, 0.5), (20, 0.5), (20, 1.0)])
def test_paper_size_bracket_agrees_with_sampled_tuples(k, eps):
    p, q, nu = paper_size()
    found = delta(Tupling(Identity(276), k, nu), p, q, eps, ordered=True)
    mean, error = sampled_delta(p, q, nu, k, math.exp(eps), 200_000, 11)
    assert abs(found.midpoint - mean) < 5 * error
    assert found.width <= 1e-4 * found.upper


def test_fault_one_order_only_is_noticed():
    mechanism = Tupling(Identity(4), 2)
    assert delta(mechanism, P, Q, 1.0) == delta(mechanism, Q, P, 1.0)
    assert delta(mechanism, P, Q, 1.0).lower > 2 * delta(mechanism, P, Q, 1.0, ordered=True).upper


def test_fault_dummy_law_ignored_is_noticed():
    given, uniform = Tupling(Identity(4), 2, NU), Tupling(Identity(4), 2)
    assert abs(delta(given, P, Q, 0.5).lower - delta(uniform, P, Q, 0.5).upper) > 0.05


def test_fault_off_by_one_in_the_number_of_dummies_is_noticed():
    values = [delta(Tupling(Identity(4), k), P, Q, 0.5).upper for k in range(4)]
    assert values[0] == pytest.approx(0.4)  # no dummy: the channel itself
    assert all(a - b > 0.02 for a, b in itertools.pairwise(values))


def test_dummy_law_with_zeros_adds_what_no_dummy_hides():
    nu = [0.5, 0.5, 0.0, 0.0]
    found = delta(Tupling(Identity(4), 2, nu), P, Q, 0.5, ordered=True)
    assert Fraction(found.lower) <= brute_delta(P, Q, nu, 2, math.exp(0.5)) <= Fraction(found.upper)


def test_delta_far_below_round_off_keeps_its_relative_precision():
    p, q, _ = paper_size(9)
    mechanism = Tupling(Identity(276), 60)
    found = delta(mechanism, p, q, 2.0)
    assert 0 < found.lower < found.upper < 1e-10
    assert found.width <= 1e-4 * found.upper
    # Chernoff's bound (theory 4.3) lies above, and not by orders of magnitude.
    a, b = p * 276, q * 276
    bounds = []
    for x, y in ((a, b), (b, a)):
        g = x - math.exp(2.0) * y
        theta = np.geomspace(1e-3, 10, 400)
        log_moment = np.log([np.exp(s * g).mean() for s in theta])
        bounds.append(float(np.exp(np.min(61 * log_moment - 1 - np.log(theta)))) / 61)
    assert found.upper <= max(bounds) <= 100 * found.upper


def test_delta_falls_with_epsilon_and_with_dummies():
    p, q, _ = paper_size(4)
    curve = [delta(Tupling(Identity(276), 10), p, q, e) for e in np.linspace(0, 4, 17)]
    assert all(b.upper <= a.upper and b.lower <= a.upper for a, b in itertools.pairwise(curve))
    more = [delta(Tupling(Identity(276), k), p, q, 0.5) for k in (0, 1, 2, 4, 9, 30, 100)]
    assert all(b.upper < a.lower for a, b in itertools.pairwise(more))


def test_identical_distributions_give_nothing():
    p, _, nu = paper_size()
    for k in (0, 1, 10):
        assert delta(Tupling(Identity(276), k, nu), p, p, 0.0).upper < 1e-11
        assert epsilon(Tupling(Identity(276), k, nu), p, p, 1e-6).upper == 0.0


def test_relabelling_outputs_changes_nothing():
    p, q, nu = paper_size()
    order = np.random.default_rng(0).permutation(276)
    one = delta(Tupling(Identity(276), 10, nu), p, q, 0.5)
    two = delta(Tupling(Identity(276), 10, nu[order]), p[order], q[order], 0.5)
    assert one.lower <= two.upper
    assert two.lower <= one.upper


def test_post_processing_the_base_never_hurts():
    rng = np.random.default_rng(2)
    first, second = rng.dirichlet(np.ones(4), size=4), rng.dirichlet(np.ones(4), size=4)
    for eps in (0.0, 0.5, 1.0):
        before = delta(Channel(first), P, Q, eps)
        after = delta(Channel(first @ second), P, Q, eps)
        assert after.lower <= before.upper + 1e-15


@pytest.mark.parametrize("k", [0, 1, 3, 10, 40])
@pytest.mark.parametrize("target", [0.2, 1e-2, 1e-3, 1e-5])
def test_epsilon_is_the_inverse_of_delta(k, target):
    p, q, nu = paper_size(6)
    mechanism = Tupling(Identity(276), k, nu)
    found = epsilon(mechanism, p, q, target)
    assert found.width <= 1.2e-4 * found.upper
    assert delta(mechanism, p, q, found.upper * (1 + 1e-9), rtol=1e-6).upper <= target * (1 + 2e-6)
    if found.lower > 0:
        assert delta(mechanism, p, q, found.lower * (1 - 1e-9), rtol=1e-6).lower >= target * (1 - 2e-6)


def test_epsilon_at_the_edges():
    mechanism = Tupling(Identity(4), 3)
    assert epsilon(mechanism, P, Q, 0.0).lower == math.inf  # an output that only Q has
    assert epsilon(mechanism, P, Q, 0.999).upper == 0.0
    assert epsilon(mechanism, P, Q, 1.0).upper == 0.0
    inner = Tupling(RandomizedResponse(4, 2.0), 30)
    ratio = RandomizedResponse(4, 2.0)
    pure = max(float(np.max(np.abs(np.log(ratio.lift(a) / ratio.lift(b))))) for a, b in ((P, Q), (Q, P)))
    # Theory 4.1: dummies do not lower the pure epsilon.
    assert epsilon(inner, P, Q, 0.0).upper == pytest.approx(pure, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_single_report_inverse_matches_the_piecewise_linear_curve(data):
    n = data.draw(st.integers(1, 6))
    p, q = data.draw(distributions(n)), data.draw(distributions(n))
    target = data.draw(st.sampled_from([0.0, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 1.0]))
    try:
        found = epsilon(Identity(n), p, q, target, ordered=True)
    except PrecisionError as error:  # the target is exactly what stays visible at any epsilon
        found = error.bracket
    curve = accountant.SingleReport(np.asarray(p), np.asarray(q), 0.0)
    if found.upper < 700:
        assert curve.delta(math.exp(found.upper)).bracket.lower <= target
    if 0 < found.lower < 700:
        assert curve.delta(math.exp(found.lower) * (1 - 1e-9)).bracket.upper >= target


def test_huge_epsilon_neither_overflows_nor_goes_negative():
    mechanism = Tupling(RestrictedLaplace(np.arange(12.0), 0.7, 3.0), 5)
    p, q = np.full(12, 1 / 12), np.eye(12)[0]
    for eps in (50.0, 500.0, 5e3, 1e300, math.inf):
        found = delta(mechanism, p, q, eps)
        assert 0 <= found.lower <= found.upper <= 1
    assert delta(Identity(12), p, q, math.inf).upper == pytest.approx(11 / 12)


def test_bad_arguments_are_named():
    mechanism = Tupling(Identity(4), 2)
    for bad in (-1.0, math.nan):
        with pytest.raises(ParameterError, match="epsilon"):
            delta(mechanism, P, Q, bad)
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(ParameterError, match="delta"):
            epsilon(mechanism, P, Q, bad)
    with pytest.raises(DistributionError, match="p has 3 entries"):
        delta(mechanism, [0.5, 0.3, 0.2], Q, 1.0)
    with pytest.raises(DistributionError, match=r"q\[1\]"):
        delta(mechanism, P, [1.5, -0.5, 0, 0], 1.0)
    with pytest.raises(DistributionError, match="sums to"):
        delta(mechanism, [0.5, 0.3, 0.1, 0.0], Q, 1.0)


def test_width_out_of_reach_is_an_error_that_carries_the_bracket():
    p, q, _ = paper_size()
    with pytest.raises(PrecisionError) as caught:
        delta(Tupling(Identity(276), 50), p, q, 0.3, rtol=1e-13)
    assert caught.value.bracket.width > 0


# --- what a bracket once missed: found by review against a 60-digit oracle ----------------------------------


def exact_delta(p, q, nu, k, t) -> Fraction:
    """Return delta by listing multisets in rational arithmetic: for few outputs and many dummies."""
    m, n = k + 1, len(p)
    total = Fraction(0)
    P, Q, N = ([Fraction(float(x)) for x in law] for law in (p, q, nu))
    for counts in itertools.product(range(m + 1), repeat=n - 1):
        last = m - sum(counts)
        if last < 0:
            continue
        every = (*counts, last)
        gain = Fraction(0)
        for y, c in enumerate(every):  # the real report is one of the c values y: the dummies are the rest
            if c:
                weight = Fraction(
                    math.factorial(k), math.prod(math.factorial(d - (i == y)) for i, d in enumerate(every))
                )
                for i, d in enumerate(every):
                    weight *= N[i] ** (d - (i == y))
                gain += weight * (P[y] - Fraction(t) * Q[y])
        total += max(gain, Fraction(0))
    return total


@pytest.mark.parametrize(
    ("p", "q", "nu", "k", "t"),
    [
        ([0, 0, 1.0], [0.5, 0.5, 0], [0.5, 0.5 - 9e-10, 0], 40, 1.0),
        (
            [4 / 9, 4 / 9, 1 / 9],
            [0.7252895031901403, 0.27471049680985976, 0],
            [0, 0.3475904789097464, 0.6524095210902536],
            51,
            1.01,
        ),
        (
            [0.7946411688758741, 0.20535883112412584, 4.832735520342218e-15],
            [0.7946411688758738, 0.20535883112412578, 4.832631570782082e-15],
            [0.3081572671077594, 0.6918427328922404, 1.3543151778691405e-16],
            25,
            1.0,
        ),
        ([0.6, 0.4], [0.4, 0.6], [0.3, 0.7], 120, 1 + 2**-52),
        ([0.0, 1, 0], [1 / 3, 1 / 3, 1 - 2 / 3], [5.9e-7, 1.06e-17, 1 - 5.9e-7], 3, 1e10),
    ],
)
def test_near_ties_unsummed_dummies_and_tiny_masses_stay_inside(p, q, nu, k, t):
    exact = exact_delta(p, q, nu, k, t)
    terms = TupleSum.of(*(np.asarray(law, float) for law in (p, q, nu)), k + 1, 0.0)
    brackets = [terms.delta(t, 1e-4).bracket]
    listed = as_single_report(terms)
    if listed is not None:
        brackets.append(accountant.SingleReport(*listed).delta(t).bracket)
    for found in brackets:
        assert Fraction(found.lower) <= exact <= Fraction(found.upper)


def test_precision_errors_carry_the_bracket_of_what_was_asked():
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(60))
    q = 0.9 * p + 0.1 * np.eye(60)[0]
    mechanism = Tupling(Identity(60), 30, rng.dirichlet(np.ones(60) * 3))
    with pytest.raises(PrecisionError) as caught:
        delta(mechanism, p, q, 0.02, rtol=1e-13)
    coarse = delta(mechanism, p, q, 0.02)
    assert caught.value.bracket.lower <= coarse.upper
    assert coarse.lower <= caught.value.bracket.upper  # the larger of both orders, not the first that failed
    with pytest.raises(PrecisionError, match="epsilon lies in") as caught:
        epsilon(mechanism, p, q, 1e-3, rtol=1e-11)
    assert caught.value.bracket.lower <= epsilon(mechanism, p, q, 1e-3).upper


@pytest.mark.parametrize("bits", [720.0, 709.5, 743.0])
def test_epsilon_beyond_the_range_of_a_double_is_not_called_infinite(bits):
    q = math.exp(-740.0)
    found = delta(Identity(2), [0.5, 0.5], [q, 1.0], bits, ordered=True)
    expected = max(0.0, 0.5 - math.exp(bits + math.log(q)))
    assert found.lower <= expected * (1 + 1e-9) + 1e-300
    assert expected * (1 - 1e-9) <= found.upper
    assert found.width < 1e-9


def test_pure_epsilon_contains_the_logarithm_of_the_exact_ratio():
    rng = np.random.default_rng(1)
    with mpmath.workdps(50):
        for _ in range(300):
            a, b = 10.0 ** rng.uniform(-12, -1, 2)
            p, q = np.array([a, 1 - a]), np.array([b, 1 - b])
            ratios = [mpmath.log(mpmath.mpf(x) / mpmath.mpf(y)) for x, y in zip(p.tolist(), q.tolist(), strict=True)]
            found = epsilon(Identity(2), p, q, 0.0, ordered=True)
            assert found.lower <= max(ratios) <= found.upper
            assert found.width < 1e-13


def test_many_dummies_with_few_outputs_neither_underflow_nor_crash():
    exact = math.log(1.5)
    for nu, k in (([1e-3, 0.999], 107), ([0.01, 0.99], 161), ([0.5, 0.5], 1100)):
        mechanism = Tupling(Identity(2), k, nu)
        found = epsilon(mechanism, [0.6, 0.4], [0.4, 0.6], 0.0, ordered=True)
        assert found.lower <= exact <= found.upper + 1e-15
        assert delta(mechanism, [0.6, 0.4], [0.4, 0.6], 0.5).upper < 1
    tiny = Tupling(Identity(2), 1, [1e-130, 1.0])
    with pytest.raises(PrecisionError) as caught:  # about 1e-130, and said to be anything up to 1
        delta(tiny, [1.0, 0], [0.0, 1.0], math.inf, ordered=True)
    assert caught.value.bracket.lower <= 1e-130


def test_lifting_below_the_range_of_a_double_claims_nothing_about_what_it_lost():
    channel = Channel([[1.0, 0], [1.0, 1e-170]])
    with pytest.raises(PrecisionError) as caught:  # the exact value is about 391
        epsilon(channel, [0, 1.0], [1.0, 1e-170], 0.0)
    assert caught.value.bracket.lower <= 391 <= caught.value.bracket.upper
    assert delta(channel, [0, 1.0], [1.0, 1e-170], 1.0).upper < 1e-100


def test_fault_bracket_rounded_the_wrong_way_is_noticed():
    """The value is irrational, so both ends must lie strictly around it, whichever way its nearest double lies."""
    rng = np.random.default_rng(8)
    nearest_above = claims_raised = 0
    with mpmath.workdps(50):
        for case in range(200):
            k = case % 3
            p, q, nu = rng.dirichlet(np.ones(3), size=3)
            eps = float(rng.uniform(0.1, 1.5))
            t = mpmath.exp(mpmath.mpf(eps))
            exact = mpmath.mpf(0)
            for a, b in tuple_laws(fractions(p), fractions(q), fractions(nu), k).values():
                left, right = (mpmath.mpf(x.numerator) / x.denominator for x in (a, b))
                exact += max(left - t * right, 0)
            found = delta(Tupling(Identity(3), k, nu), p, q, eps, ordered=True)
            assert found.lower < exact < found.upper or exact == found.lower == 0
            assert found.width < 1e-13
            nearest_above += float(exact) > exact
            for digits in (1, 3, 7, 15):
                claimed = mpmath.mpf(found.claim(digits))
                assert claimed >= found.upper
                assert claimed - found.upper <= mpmath.mpf(10) ** (1 - digits) * found.upper
                claims_raised += mpmath.mpf(f"{found.upper:.{digits - 1}e}") < exact
    assert 50 < nearest_above < 150  # rounding to nearest would claim too little about as often as too much
    assert claims_raised > 200


def test_fault_replacement_confused_is_noticed():
    """Theory, V1 at k = 1: independent dummies and distinct ones each match their own values, loss and draws."""
    with_replacement, without = (Tupling(Identity(4), 1, replacement=kind) for kind in (True, False))
    printed = zip((0.0, 0.5, 1.0), V1["uniform", 1], (0.2666666667, 0.1152983702, 0.0), strict=True)
    for eps, (independent, _), distinct in printed:
        assert delta(with_replacement, P, Q, eps, ordered=True).upper == pytest.approx(independent, abs=6e-11)
        assert delta(without, P, Q, eps, ordered=True).upper == pytest.approx(distinct, abs=6e-11)
    assert epsilon(with_replacement, P, Q, 0.0, ordered=True).upper == pytest.approx(math.log(5))
    assert epsilon(without, P, Q, 0.0, ordered=True).upper == pytest.approx(math.log(0.8 / 0.3))
    base = RestrictedLaplace(np.arange(4.0), 1.0, 1.0)  # theory, V3
    loss, less = (expected_loss(Tupling(base, 1, replacement=kind), NU) for kind in (True, False))
    assert loss == pytest.approx(0.2598092012, abs=6e-11)
    assert less < loss - 0.02
    for kind in (True, False):
        drawn = Sampler(Weights.of(np.eye(4)), None, 1, kind).draw(np.arange(4).repeat(500), Seeded(1))
        assert (drawn[:, 0] == drawn[:, 1]).mean() == pytest.approx(0.25 if kind else 0.0, abs=0.05 if kind else 0)
