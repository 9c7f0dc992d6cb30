"""Drawing: exactly the integer weights, from words that nobody shares and nobody can predict."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from distp import Tupling
from distp.release import Policy, Sampler, Simulation, entropy
from distp.release.draws import _bounded, _favoured
from distp.release.entropy import CHUNK, Seeded, SystemEntropy, keystream
from distp.release.sampling import Alias
from distp.release.weights import BITS, FEW_BITS, Weights
from test_release import make_policy

ALPHA = 1e-6
SOURCES = pytest.mark.parametrize("source", [SystemEntropy(), Seeded(3)], ids=["system", "seeded"])


@pytest.fixture(scope="module")
def policy() -> Policy:
    return make_policy()


def chi_square_p(counts, law) -> float:
    keep = law > 0
    assert counts[~keep].sum() == 0
    return float(stats.chisquare(counts[keep], law[keep] * counts.sum() / law[keep].sum()).pvalue)


def tilted(law, factor):
    """Return a law with 5 % more or less of its largest entry: what a wrong sampler would follow."""
    other = law.copy()
    other[np.argmax(other)] *= factor
    return other / other.sum()


def right_and_nothing_else(counts, law):
    assert chi_square_p(counts, law) > ALPHA
    for factor in (0.95, 1.05):
        assert chi_square_p(counts, tilted(law, factor)) < ALPHA


# --- one word, one draw: exact ----------------------------------------------------------------------------


def units(table: Alias, row: int, width: int) -> list[int]:
    """Return how many of the 2^64 words an alias table gives each column, as Python integers."""
    found = [0] * width
    capacity = 1 << int(table.shift[row])
    for slot in range(int(table.slots[row]), int(table.slots[row + 1])):
        below = int(table.threshold[slot])
        assert 0 <= below <= capacity
        found[table.columns[2 * slot]] += below
        found[table.columns[2 * slot + 1]] += capacity - below
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.floats(1e-3, 5), st.integers(0, 2**32 - 1), st.sampled_from([FEW_BITS, BITS]))
def test_alias_tables_hold_exactly_the_weights(width, spread, seed, bits):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(width, spread), size=3)
    law[0] = np.eye(width)[0]  # a row of one entry
    weights = Weights.of(law, bits)
    table = Alias.of(weights)
    dense = weights.matrix().toarray()
    for row in range(3):
        assert units(table, row, width) == [int(share * 2**bits) << (64 - bits) for share in dense[row]]
        assert table.slots[row + 1] - table.slots[row] == 1 << (64 - int(table.shift[row]))


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1))
@example(0x55555555_FFFFFFFF, 3)  # the product of the lower half is carried over into the upper
def test_bounded_draws_are_word_times_bound(word, bound):
    high, low = _bounded(np.uint64(word), np.uint64(bound))
    assert (int(high), int(low)) == divmod(word * bound, 2**64)
    assert int(_favoured(np.uint64(bound))) == 2**64 % bound


@pytest.mark.parametrize(("bits", "bound"), [(8, 3), (8, 7), (10, 276), (10, 512)])
def test_what_is_not_refused_is_uniform(bits, bound):
    """The same rule with words of few bits, all of them tried: each outcome has the same number of words."""
    size = 1 << bits
    kept = [(word * bound) >> bits for word in range(size) if (word * bound) % size >= size % bound]
    assert set(np.bincount(kept, minlength=bound)) == {size // bound}
    without = [(word * bound) >> bits for word in range(size)]
    assert (len(set(np.bincount(without, minlength=bound))) == 1) is (size % bound == 0)


class Given:
    """Words as the test wants them: refused at first, then those of a seed, told apart by row and turn."""

    def __init__(self, refused=()) -> None:
        self.refused, self.asked = set(refused), []

    def rows(self, rows, each, turn):
        self.asked.append((rows.tolist(), turn))
        words = np.empty((rows.size, each), np.uint64)
        for place, row in enumerate(rows.tolist()):
            words[place] = np.random.default_rng([row, turn]).integers(0, 2**64 - 1, each, dtype=np.uint64)
            if (row, turn) in self.refused:
                words[place, :] = 0  # whose product has a lower half of 0: below 2^64 modulo 7
        return words


@pytest.mark.parametrize("replacement", [True, False])
def test_refused_words_are_drawn_again_and_nobody_elses(replacement):
    sampler = Sampler(Weights.of(np.full((1, 7), 1 / 7)), None, 2, replacement)
    inputs = np.zeros(5, dtype=np.int64)
    plain, refused = Given(), Given({(2, 0), (2, 2)})
    first, second = sampler.draw(inputs, plain), sampler.draw(inputs, refused)
    others = [0, 1, 3, 4]
    assert np.array_equal(first[others], second[others])
    turns = [turn for rows, turn in refused.asked if rows == [2]]
    assert turns == ([0, 1, 2, 3, 4, 5] if replacement else [0, 2, 4])
    assert [turn for _, turn in plain.asked] == ([0, 1] if replacement else [0])


def test_a_favoured_place_is_refused_too():
    """Three places: the word of the place is refused, the dummies' bound of 4 never."""

    class Place(Given):
        def rows(self, rows, each, turn):
            words = super().rows(rows, each, turn)
            if turn == 1:
                words[:, 0] = 0
            return words

    source = Place()
    Sampler(Weights.of(np.full((1, 4), 0.25)), None, 2).draw(np.zeros(1, dtype=np.int64), source)
    assert [turn for _, turn in source.asked] == [0, 1, 0, 1, 2, 3]


# --- the law: the right one is accepted, 5 % off is rejected ----------------------------------------------


@SOURCES
def test_real_report_follows_its_row(policy, source):
    row = int(np.argmax(np.diff(policy.channel.starts)))
    law = policy.channel.matrix().toarray()[row]
    drawn = Sampler(policy.channel, None, 0).draw(np.full(400_000, row), source)
    assert drawn.shape == (400_000, 1)
    right_and_nothing_else(np.bincount(drawn[:, 0], minlength=law.size), law)


@SOURCES
def test_dummies_follow_their_weights(source):
    law = np.random.default_rng(4).dirichlet(np.ones(21))
    channel = Weights.of(np.eye(21)[:1])
    drawn = Sampler(channel, Weights.of(law), 5).draw(np.zeros(100_000, dtype=np.int64), source)
    counts = np.bincount(drawn.ravel(), minlength=21)
    counts[0] -= 100_000  # the real reports
    right_and_nothing_else(counts, law)


@SOURCES
@pytest.mark.parametrize("width", [1, 2, 3, 7, 276, 70_000])
def test_uniform_dummies_are_uniform(width, source):
    channel = Weights.of(np.array([[1.0]]))
    channel = Weights(channel.starts, channel.columns, channel.values, width)
    drawn = Sampler(channel, None, 3).draw(np.zeros(200_000, dtype=np.int64), source)
    assert drawn.dtype == (np.uint32 if width > 2**16 else np.uint16)
    counts = np.bincount(drawn.ravel(), minlength=width).astype(float)
    counts[0] -= 200_000
    assert counts.size == width
    law = np.full(width, 1 / width)
    if width > 1:
        assert chi_square_p(counts, law) > ALPHA
    if 1 < width < 10:
        for factor in (0.95, 1.05):
            assert chi_square_p(counts, tilted(law, factor)) < ALPHA


@SOURCES
def test_fault_real_report_always_first_is_noticed(source):
    policy = make_policy(dummies=2)
    row = int(np.argmax(np.diff(policy.channel.starts)))
    law = policy.channel.matrix().toarray()[row]
    drawn = policy.sampler.draw(np.full(300_000, row), source)
    mixture = law / 3 + 2 / 3 / law.size
    mostly_real = 0.9 * law + 0.1 / law.size
    for place in range(3):
        counts = np.bincount(drawn[:, place], minlength=law.size)
        assert chi_square_p(counts, mixture) > ALPHA  # every place alike
        assert chi_square_p(counts, mostly_real) < ALPHA


@SOURCES
@pytest.mark.parametrize("uniform", [True, False])
def test_whole_tuples_follow_the_law_that_the_accountant_assumes(uniform, source):
    """Two dummies on few outputs: the joint law of the tuple, not only of each place."""
    p = np.array([0.7, 0.2, 0.1])
    nu = np.full(3, 1 / 3) if uniform else np.array([0.5, 0.25, 0.25])
    sampler = Sampler(Weights.of(p[None]), None if uniform else Weights.of(nu), 2)
    drawn = sampler.draw(np.zeros(2_000_000, dtype=np.int64), source)
    law = np.zeros(27)
    for a, b, c in itertools.product(range(3), repeat=3):
        law[9 * a + 3 * b + c] = (p[a] * nu[b] * nu[c] + nu[a] * p[b] * nu[c] + nu[a] * nu[b] * p[c]) / 3
    counts = np.bincount(drawn.astype(int) @ np.array([9, 3, 1]), minlength=27)
    right_and_nothing_else(counts, law)
    with_replacement_confused = law.copy()
    with_replacement_confused[[0, 13, 26]] *= 0.5
    assert chi_square_p(counts, with_replacement_confused / with_replacement_confused.sum()) < ALPHA


def test_neighbouring_rows_and_chunks_are_independent():
    """A stream that is used twice would show between rows, or at the same place of two chunks."""
    sampler = Sampler(Weights.of(np.full((1, 16), 1 / 16)), None, 1)
    rows = CHUNK // 16
    drawn = sampler.draw(np.zeros(4 * rows, dtype=np.int64), SystemEntropy()).astype(int)
    for one, two in (
        (drawn[:-1, 0], drawn[1:, 0]),
        (drawn[:-rows, 0], drawn[rows:, 0]),
        (drawn[:, 0], drawn[:, 1]),
    ):
        counts = np.bincount(16 * one + two, minlength=256)
        assert chi_square_p(counts, np.full(256, 1 / 256)) > ALPHA


@pytest.mark.parametrize("replacement", [True, False])
def test_the_work_of_a_batch_depends_on_its_size_only(replacement):
    """As many words for certain reports as for uncertain ones, for near regions as for far: time tells nothing."""

    class Counting(Seeded):
        asked = 0

        def words(self, size):
            self.asked += size
            return super().words(size)

    law = np.eye(64)[[0, 63]]
    channel = Weights.of(np.vstack([law, np.full((1, 64), 1 / 64)]))
    asked = set()
    for row in range(3):
        source = Counting(row)
        Sampler(channel, None, 7, replacement).draw(np.full(5000, row), source)
        asked.add(source.asked)
    assert asked == {5000 * (10 if replacement else 8)}


# --- randomness: nobody's but this draw's -----------------------------------------------------------------


def test_bits_are_fair_and_words_never_repeat():
    words = SystemEntropy().words(400_000)
    assert np.unique(words).size == words.size
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(axis=0)
    assert stats.chi2.sf(((ones - 200_000) ** 2 / 100_000).sum(), 64) > ALPHA


def test_keystream_is_aes_256_in_counter_mode_with_a_key_for_each_part():
    keys = [bytes(range(32)), bytes(32)]
    stream = keystream(CHUNK + 16, iter(keys).__next__)
    # FIPS 197, appendix C.3: the block 00112233445566778899aabbccddeeff under the first key; here the block is 0.
    assert bytes(stream[:16]).hex() == "f29000b62a499fd0a9f39a6add2e7780"
    assert bytes(stream[CHUNK:]).hex() == "dc95c078a2408989ad48a21492842087"  # NIST: AES-256 of 0 under key 0
    assert keystream(0, iter([]).__next__).size == 0


def test_every_call_asks_the_system_for_its_own_keys(monkeypatch):
    asked, system = [], os.urandom

    def recorded(size):
        asked.append(size)
        return system(size)

    monkeypatch.setattr(entropy.os, "urandom", recorded)
    source = SystemEntropy()
    source.words(1)
    source.words(CHUNK // 8 + 1)
    assert asked == [32, 32, 32]
    assert vars(source) == {}


def test_forked_workers_draw_differently(policy):
    policy.release([40.75], [-73.97])  # whatever is kept from a draw is there before the fork
    readers = []
    for _ in range(4):
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, policy.release([40.75] * 8, [-73.97] * 8).tobytes())
            os._exit(0)
        os.close(write)
        os.wait()
        readers.append(os.read(read, 4096))
        os.close(read)
    assert len({*readers, policy.release([40.75] * 8, [-73.97] * 8).tobytes()}) == 5


def _drawn(policy: Policy) -> bytes:
    return policy.release([40.75] * 8, [-73.97] * 8).tobytes()


def test_spawned_workers_and_threads_draw_differently(policy):
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # each worker takes seconds to start
        found = pool.map(_drawn, [policy] * 2)
    barrier = threading.Barrier(4)

    def together(_):
        barrier.wait()
        return _drawn(policy)

    with ThreadPoolExecutor(4) as threads:
        found += threads.map(together, range(4))
    assert len(set(found)) == 6


def test_policies_and_mechanisms_pickle_and_carry_no_randomness(policy):
    before = pickle.dumps(policy)
    policy.release([40.75], [-73.97])
    again = pickle.loads(before)
    assert again.certificate == policy.certificate
    assert _drawn(again) != _drawn(pickle.loads(before))
    assert len(pickle.dumps(policy.sampler)) < len(before)
    copies = [pickle.loads(pickle.dumps(Sampler.of(Tupling(policy.mechanism.base, 2)))) for _ in range(2)]
    assert not any(name.startswith("_") for name in vars(copies[0]))
    zeros = np.zeros(20, dtype=np.int64)
    assert not np.array_equal(*(copy.draw(zeros, SystemEntropy()) for copy in copies))


def test_global_generators_are_left_alone(policy):
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - the very thing that must not be touched
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    policy.release([40.75], [-73.97])
    policy.simulate([40.75], [-73.97], seed=1)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


def test_simulations_name_their_generator(policy):
    made = policy.simulate([40.75] * 3, [-73.97] * 3, seed=0)
    assert (made.generator, made.seed, made.simulated) == ("PCG64", 0, True)
    assert not isinstance(policy.release([40.75], [-73.97]), Simulation)


def test_weights_beyond_one_chunk_and_one_row_agree_with_small_batches():
    """A batch is cut into chunks; where they end must not show."""
    sampler = Sampler(Weights.of(np.eye(5)), None, 0)
    inputs = np.arange(3 * CHUNK // 8 + 7) % 5
    assert np.array_equal(sampler.draw(inputs, SystemEntropy())[:, 0], inputs)
    wide = Sampler(Weights.of(np.eye(5)), None, CHUNK)  # a row that is longer than a chunk
    assert (wide.draw(np.array([2, 3]), SystemEntropy()) == [[2], [3]]).any(axis=1).all()
