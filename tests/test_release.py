"""Release: the certified law and no other, from the operating system's entropy; policy files that cannot lie."""

from __future__ import annotations

import inspect
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

import distp
from distp import Channel, Pair, Policy, Regions, RestrictedLaplace, Tupling, certify
from distp.errors import CoordinateError, OutsideError, ParameterError, PolicyError
from distp.release import policyfile, quantised
from distp.release.sampling import Seeded, SystemEntropy, below, by_weight, tuples
from distp.release.weights import TOTAL, Weights
from distp.spaces import Box

ALPHA = 1e-6


def make_policy(dummies: int = 3, nu=None, outside: str = "refuse") -> Policy:
    rng = np.random.default_rng(0)
    lat, lon = 40.75 + 0.01 * rng.standard_normal(400), -73.97 + 0.01 * rng.standard_normal(400)
    regions = Regions.quadtree(lat, lon, box=Box.around(40.75, -73.97, 5, 5), regions=31)
    n = len(regions.inputs)
    pairs = [Pair("a", *rng.dirichlet(np.ones(n), size=2)), Pair("b", *rng.dirichlet(np.ones(n), size=2))]
    law = None if nu is None else rng.dirichlet(np.ones(len(regions)))
    mechanism = Tupling(RestrictedLaplace(regions.inputs, 1.2, 1.6, regions), dummies, law)
    return Policy.create(mechanism, regions, pairs, epsilon=1.0, delta=0.2, prior=np.full(n, 1 / n), outside=outside)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return make_policy()


# --- integer weights -------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 40), st.floats(0, 60), st.integers(0, 2**32 - 1))
def test_weights_sum_to_the_total_and_stay_within_one_unit_of_the_law(n, epsilon, seed):
    points = np.random.default_rng(seed).uniform(0, 5, (n, 2))
    matrix = distp.PlanarLaplace(points, epsilon).channel()
    weights = Weights.of(matrix)
    dense = weights.matrix().toarray()
    for row in range(n):
        columns, running = weights.row(row)
        assert int(running[-1]) == TOTAL
        assert set(columns.tolist()) <= set(np.flatnonzero(matrix[row]).tolist())
    assert np.abs(dense - matrix).max() <= (n + 2**13) / TOTAL


def test_certificate_is_that_of_the_integer_weights(policy):
    exact = policy.mechanism
    assert isinstance(exact.base, Channel)
    assert policy.certificate == certify(exact, policy.pairs, 1.0, 0.2, policy.prior)
    again, channel, dummies = quantised(exact)
    assert np.array_equal(channel.values, policy.channel.values)  # rounding twice changes nothing
    assert dummies is None
    assert again.dummies == policy.dummies


# --- samplers: the right law is accepted, 5 % off is rejected -------------------------------------------


def chi_square_p(counts, law) -> float:
    keep = law > 0
    assert counts[~keep].sum() == 0
    return float(stats.chisquare(counts[keep], law[keep] * counts.sum() / law[keep].sum()).pvalue)


def tilted(law, factor):
    """Return a law with 5 % more or less of its largest entry: what a wrong sampler would follow."""
    other = law.copy()
    other[np.argmax(other)] *= factor
    return other / other.sum()


@pytest.mark.parametrize("source", [SystemEntropy(), Seeded(3)], ids=["system", "seeded"])
def test_real_report_follows_its_row(policy, source):
    row = int(np.argmax(np.diff(policy.channel.starts)))
    law = policy.channel.matrix().toarray()[row]
    drawn = by_weight(policy.channel, np.full(400_000, row), source)
    counts = np.bincount(drawn, minlength=law.size)
    assert chi_square_p(counts, law) > ALPHA
    for factor in (0.95, 1.05):
        assert chi_square_p(counts, tilted(law, factor)) < ALPHA


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 276])
def test_bounded_integers_are_uniform(bound):
    counts = np.bincount(below(bound, 600_000, SystemEntropy()), minlength=bound).astype(float)
    assert counts.size == bound
    law = np.full(bound, 1 / bound)
    if bound > 1:
        assert chi_square_p(counts, law) > ALPHA
    if 1 < bound < 10:
        for factor in (0.95, 1.05):
            assert chi_square_p(counts, tilted(law, factor)) < ALPHA


class Stuck:
    """Words that a biased reduction would use and an unbiased one must redraw."""

    def __init__(self) -> None:
        self.asked = 0

    def words(self, size):
        self.asked += 1
        return np.full(size, 2**64 - 1 if self.asked == 1 else 5, dtype=np.uint64)


def test_words_beyond_the_last_multiple_are_redrawn():
    source = Stuck()
    assert below(7, 4, source).tolist() == [5, 5, 5, 5]
    assert source.asked == 2
    power = Stuck()
    assert below(8, 4, power).tolist() == [7, 7, 7, 7]  # 2^64 is a multiple of 8: every word counts
    assert power.asked == 1


def test_fault_real_report_always_first_is_noticed():
    policy = make_policy(dummies=2)
    row = int(np.argmax(np.diff(policy.channel.starts)))
    law = policy.channel.matrix().toarray()[row]
    drawn = tuples(policy.channel, None, 2, np.full(300_000, row), SystemEntropy())
    mixture = law / 3 + 2 / 3 / law.size
    mostly_real = 0.9 * law + 0.1 / law.size
    for place in range(3):
        counts = np.bincount(drawn[:, place], minlength=law.size)
        assert chi_square_p(counts, mixture) > ALPHA  # every place alike
        assert chi_square_p(counts, mostly_real) < ALPHA


def test_whole_tuples_follow_the_law_that_the_accountant_assumes():
    """Two dummies on few outputs: the joint law of the multiset, not only of each place."""
    channel = Weights.of(np.array([[0.7, 0.2, 0.1]]))
    dummies = Weights.of(np.array([[0.5, 0.25, 0.25]]))
    drawn = tuples(channel, dummies, 2, np.zeros(400_000, dtype=np.int64), SystemEntropy())
    code = drawn @ np.array([9, 3, 1])
    law = np.zeros(27)
    p, nu = np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.25, 0.25])
    for a in range(3):
        for b in range(3):
            for c in range(3):
                law[9 * a + 3 * b + c] = (p[a] * nu[b] * nu[c] + nu[a] * p[b] * nu[c] + nu[a] * nu[b] * p[c]) / 3
    counts = np.bincount(code, minlength=27)
    assert chi_square_p(counts, law) > ALPHA
    with_replacement_confused = law.copy()
    with_replacement_confused[[0, 13, 26]] *= 0.5
    assert chi_square_p(counts, with_replacement_confused / with_replacement_confused.sum()) < ALPHA


# --- two doors -------------------------------------------------------------------------------------------


def test_release_takes_no_seed_and_never_repeats(policy):
    assert "seed" not in inspect.signature(Policy.release).parameters
    lat, lon = np.full(50, 40.75), np.full(50, -73.97)
    first, second = policy.release(lat, lon), policy.release(lat, lon)
    assert first.shape == (50, 4)
    assert first.dtype == np.uint16
    assert not np.array_equal(first, second)


def test_simulation_is_reproducible_stamped_and_honours_seed_0(policy):
    one, two = (policy.simulate([40.75] * 20, [-73.97] * 20, seed=0) for _ in range(2))
    assert one.simulated
    assert one.seed == 0
    assert np.array_equal(one.tuples, two.tuples)
    assert not np.array_equal(one.tuples, policy.simulate([40.75] * 20, [-73.97] * 20, seed=1).tuples)
    assert inspect.signature(Policy.simulate).parameters["seed"].default is inspect.Parameter.empty


def test_forked_processes_draw_differently(policy):
    readers = []
    for _ in range(3):
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, policy.release([40.75] * 8, [-73.97] * 8).tobytes())
            os._exit(0)
        os.close(write)
        os.wait()
        readers.append(os.read(read, 4096))
        os.close(read)
    assert len({*readers, policy.release([40.75] * 8, [-73.97] * 8).tobytes()}) == 4


def test_points_outside_are_refused_without_repeating_them(policy):
    with pytest.raises(OutsideError, match="row 1") as caught:
        policy.release([40.75, 41.9, 40.75], [-73.97, -73.1, -73.97])
    assert "41.9" not in str(caught.value)
    with pytest.raises(CoordinateError, match="row 0"):
        policy.release(math.nan, 0.0)
    assert make_policy(outside="nearest").release(41.9, -73.1).shape == (1, 4)
    with pytest.raises(ParameterError, match="outside"):
        make_policy(outside="drop")


# --- policy files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [None, "given"])
def test_a_policy_comes_back_as_it_was(tmp_path, nu):
    policy = make_policy(nu=nu)
    policy.save(tmp_path / "a.policy")
    again = Policy.load(tmp_path / "a.policy")
    assert again.certificate == policy.certificate
    assert np.array_equal(again.channel.values, policy.channel.values)
    assert np.array_equal(again.regions.cells, policy.regions.cells)
    assert (again.dummy_weights is None) == (nu is None)
    assert again.recertify() == policy.certificate
    assert [p.name for p in again.pairs] == ["a", "b"]
    again.save(tmp_path / "b.policy")
    assert (tmp_path / "a.policy").read_bytes() == (tmp_path / "b.policy").read_bytes()


def test_a_policy_without_replacement_releases_sets_and_is_certified_as_such(tmp_path):
    plain = make_policy(dummies=6)
    mechanism = Tupling(plain.mechanism.base, 6, replacement=False)
    policy = Policy.create(mechanism, plain.regions, plain.pairs, epsilon=1.0, delta=0.2, prior=plain.prior)
    policy.save(tmp_path / "a.policy")
    again = Policy.load(tmp_path / "a.policy")
    assert again.recertify() == policy.certificate
    assert policy.certificate.pairs[0].delta.upper < plain.certificate.pairs[0].delta.upper
    assert policy.certificate.loss < plain.certificate.loss
    drawn = again.release([40.75] * 500, [-73.97] * 500)
    assert (np.diff(drawn.astype(int), axis=1) > 0).all()


def test_a_policy_can_be_read_and_followed_without_the_library(tmp_path, policy):
    policy.save(tmp_path / "a.policy")
    script = """
import json, hashlib, sys
d = json.load(open(sys.argv[1]))
body = json.dumps(d["policy"], sort_keys=True, separators=(",", ":")).encode()
assert hashlib.sha256(body).hexdigest() == d["sha256"]
p = d["policy"]
assert all(sum(row["weights"]) == p["total"] for row in p["channel"])
assert p["dummies"] == {"count": 3, "weights": None, "replacement": True}
print(len(p["regions"]["centres"]), p["certificate"]["target_epsilon"])
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, tmp_path / "a.policy"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(len(policy.regions)), "1.0"]


def resigned(path, change):
    document = json.loads(path.read_text())
    change(document["policy"])
    document["sha256"] = policyfile.digest(document["policy"])
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda p: p["channel"][0]["weights"].__setitem__(0, p["channel"][0]["weights"][0] - 1),
            "does not sum",
        ),
        (lambda p: p["channel"][0]["weights"].__setitem__(0, -5), "weights must lie"),
        (lambda p: p["channel"][0]["weights"].__setitem__(0, 0.5), "whole numbers"),
        (lambda p: p["channel"][0]["weights"].__setitem__(0, True), "whole numbers"),
        (lambda p: p["channel"][0]["regions"].__setitem__(0, 999), "columns must lie"),
        (lambda p: p["channel"][0]["regions"].reverse(), "twice or out of order"),
        (lambda p: p["channel"][0]["regions"].pop(), "more regions"),
        (lambda p: p["channel"].pop(), "rows in the channel"),
        (lambda p: p["dummies"].__setitem__("count", -1), "number of dummies"),
        (lambda p: p["dummies"].__setitem__("count", 2.5), "number of dummies"),
        (lambda p: p["dummies"].__setitem__("count", 10**15), "number of dummies"),
        (lambda p: p["regions"]["cells_km"].pop(), "hole"),
        (lambda p: p["regions"].__setitem__("inputs", 10**6), "inputs"),
        (lambda p: p["regions"].__setitem__("anchor", [95.0, 0.0]), "row 0"),
        (lambda p: p["attributes"][0]["p"].__setitem__(0, 3.0), "sums to"),
        (lambda p: p["prior"].pop(), "prior"),
        (lambda p: p.__setitem__("attributes", p["attributes"][:1]), "not about the attributes"),
        (lambda p: p["attributes"][0].__setitem__("support_p", {"records": -1, "people": None}), "records"),
        (lambda p: p["regions"].__setitem__("projection", "+proj=longlat"), "projection"),
        (lambda p: p["regions"]["centres"][0].__setitem__(0, 0.0), "centres"),
        (lambda p: p.__setitem__("total", 100), "total"),
        (lambda p: p.__setitem__("outside", "drop"), "outside"),
        (lambda p: p.pop("certificate"), "certificate"),
        (lambda p: p["certificate"]["pairs"][0].pop("delta"), "delta"),
        (lambda p: p.__setitem__("regions", None), "damaged"),
    ],
)
def test_a_forged_policy_is_refused_even_with_a_right_checksum(tmp_path, policy, change, match):
    path = tmp_path / "a.policy"
    policy.save(path)
    resigned(path, change)
    with pytest.raises(PolicyError, match=match):
        Policy.load(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_changed_byte_is_noticed(tmp_path_factory, policy, data):
    path = tmp_path_factory.mktemp("fuzz") / "a.policy"
    policy.save(path)
    raw = bytearray(path.read_bytes())
    body = json.loads(bytes(raw))["policy"]
    kind = data.draw(st.sampled_from(["flip", "cut", "insert"]))
    place = data.draw(st.integers(0, len(raw) - 2))
    if kind == "flip":
        raw[place] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del raw[place:]
    else:
        raw[place:place] = data.draw(st.binary(min_size=1, max_size=9))
    path.write_bytes(bytes(raw))
    try:
        Policy.load(path)
    except PolicyError:
        return
    # What still loads differs in white space or spelling at most: it says the same, to the last digit.
    assert json.loads(bytes(raw))["policy"] == body


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff\xfe", b"[]", b"{}", b"null", b'{"format": "distp-policy", "version": 1}', b"[" * 100_000]
    + [
        b'{"format": "distp-policy", "version": 1, "policy": {"x": NaN}}',
        b"9" * 10_000,
        b'{"format":"else"}',
    ],
)
def test_foreign_files_give_one_clear_error(tmp_path, content):
    path = tmp_path / "a.policy"
    path.write_bytes(content)
    with pytest.raises(PolicyError, match=r"a\.policy"):
        Policy.load(path)


def test_no_rows_give_no_tuples_and_bad_regions_are_refused(policy):
    assert policy.release([], []).shape == (0, 4)
    assert policy.release_inputs(np.array([], dtype=np.int64)).shape == (0, 4)
    for bad in ([-1], [-3], [10**6]):
        with pytest.raises(OutsideError, match="row 0"):
            policy.release_inputs(np.array(bad))
    for bad in ([1.7], [[1]]):
        with pytest.raises(ParameterError, match="whole numbers"):
            policy.release_inputs(np.array(bad))


def test_missing_files_and_other_versions_are_named(tmp_path, policy):
    with pytest.raises(PolicyError, match="cannot read"):
        Policy.load(tmp_path / "none.policy")
    with pytest.raises(PolicyError, match="cannot read"):
        Policy.load(tmp_path)
    path = tmp_path / "a.policy"
    policy.save(path)
    path.write_text(path.read_text().replace('"version": 1', '"version": 2', 1))
    with pytest.raises(PolicyError, match="version 2"):
        Policy.load(path)
