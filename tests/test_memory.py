"""Tuples that are remembered, and draws that are counted: through other processes, crashes and limits."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distp.errors import DataError, OutsideError, ParameterError, SpentError
from distp.release import Ledger, Memory, Policy, Sampler, open_secret
from distp.release.entropy import Keyed
from distp.release.weights import Weights
from test_release import make_policy
from test_sampling import right_and_nothing_else

SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def policy() -> Policy:
    return make_policy()


def test_the_same_person_at_the_same_region_sends_the_same_tuple_whatever_is_asked_with_it(policy):
    memory = Memory(SECRET, "2026-11")
    people, inputs = ["a", "b", "a", "c", "a"], np.array([0, 0, 1, 2, 0])
    first = memory.release(policy, people, inputs)
    assert np.array_equal(first[0], first[4])
    for row in range(5):
        alone = memory.release(policy, people[row : row + 1], inputs[row : row + 1])
        assert np.array_equal(alone[0], first[row])
    assert first.dtype == np.uint16
    assert memory.release(policy, [], np.array([], dtype=np.int64)).shape == (0, policy.dummies + 1)


def test_whatever_differs_gives_other_tuples(policy):
    regions = np.arange(8)
    everyone = ["a"] * 8
    found = [
        Memory(SECRET, "1").release(policy, everyone, regions),
        Memory(SECRET, "2").release(policy, everyone, regions),
        Memory(SECRET, "1").release(policy, ["b"] * 8, regions),
        Memory(bytes(32), "1").release(policy, everyone, regions),
        Memory(SECRET, "1").release(make_policy(nu="given"), everyone, regions),
        Memory(SECRET, "").release(policy, ["1a"] * 8, regions),  # period and person do not run into each other
        Memory(SECRET, "1").release(policy, [""] * 8, regions),
    ]
    assert len({one.tobytes() for one in found}) == len(found)
    assert "secret" not in repr(Memory(SECRET))


def test_remembered_tuples_follow_the_law_over_people(policy):
    """To somebody without the secret they are like any others."""
    row = int(np.argmax(np.diff(policy.channel.starts)))
    people = [str(person) for person in range(200_000)]
    drawn = Memory(SECRET).release(policy, people, np.full(len(people), row))
    real = policy.channel.matrix().toarray()[row]
    law = (real + policy.dummies / real.size) / (policy.dummies + 1)
    right_and_nothing_else(np.bincount(drawn.ravel(), minlength=law.size), law)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=5), min_size=1, max_size=6), st.integers(1, 20), st.integers(0, 9))
def test_keyed_words_depend_on_what_a_row_is_about_and_on_the_turn_only(about, each, turn):
    rows = np.arange(len(about))
    words = Keyed(SECRET, about).rows(rows, each, turn)
    again = Keyed(SECRET, about[::-1]).rows(rows[::-1], each + 3, turn)[:, :each]
    assert np.array_equal(words, again)
    other = Keyed(SECRET, about).rows(rows, each, turn + 1)
    assert not (words == other).any()


def test_a_row_whose_words_are_refused_is_still_remembered():
    """Of 2^64 words, those that would favour an outcome are drawn again: by the row's own further words."""

    class Refusing(Keyed):
        def rows(self, rows, each, turn):
            words = super().rows(rows, each, turn).copy()
            if turn == 0:
                words[rows == 3] = 0
            return words

    sampler = Sampler(Weights.of(np.full((1, 7), 1 / 7)), None, 2)
    about, inputs = [bytes([row]) for row in range(6)], np.zeros(6, dtype=np.int64)
    plain, refused = (sampler.draw(inputs, source(SECRET, about)) for source in (Keyed, Refusing))
    assert np.array_equal(np.delete(plain, 3, 0), np.delete(refused, 3, 0))
    alone = sampler.draw(inputs[:1], Refusing(SECRET, [bytes([3])]))
    assert alone.shape == (1, 3)


# --- the secret -------------------------------------------------------------------------------------------


def test_a_secret_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: open_secret(tmp_path / "secret"), range(32)))
    assert len(found) == 1
    assert [item.name for item in tmp_path.iterdir()] == ["secret"]
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert open_secret(tmp_path / "other") not in found


@pytest.mark.parametrize("content", ["", "zz" * 32, "ab" * 31, "ab" * 33, "é"])
def test_a_damaged_secret_is_never_replaced(tmp_path, content):
    (tmp_path / "secret").write_text(content)
    (tmp_path / "secret").chmod(0o600)
    with pytest.raises(DataError, match="holds no secret"):
        open_secret(tmp_path / "secret")
    assert (tmp_path / "secret").read_text() == content
    with pytest.raises(DataError, match="cannot use the secret"):
        open_secret(tmp_path / "no" / "secret")
    for wrong in (b"short", "text", None):
        with pytest.raises(ParameterError, match="32 bytes"):
            Memory(wrong)
    with pytest.raises(ParameterError, match="period"):
        Memory(SECRET, 3)


# --- the ledger -------------------------------------------------------------------------------------------


def test_independent_draws_are_counted_once_and_refused_beyond_the_limit(tmp_path, policy):
    memory = Memory(SECRET, "1", Ledger(tmp_path / "ledger", 3))
    people, inputs = ["a"] * 4 + ["b"], np.array([0, 1, 0, 2, 9])
    first = memory.release(policy, people, inputs)
    assert (memory.spent("a"), memory.spent("b"), memory.spent("c")) == (3, 1, 0)
    with pytest.raises(SpentError, match=r"1 person has no independent draw left of 3 \(first: row 1\)") as caught:
        memory.release(policy, ["b", "a", "a"], np.array([1, 3, 0]))
    assert "'a'" not in str(caught.value)
    assert np.array_equal(memory.release(policy, people, inputs), first)  # what was drawn may be sent again
    other = Memory(SECRET, "2", Ledger(tmp_path / "ledger", 3))  # another period draws anew, and is counted too
    with pytest.raises(SpentError):
        other.release(policy, ["a"], np.array([0]))
    drawn, allowed = memory.release_allowed(policy, ["a", "c"], np.array([3, 3]))
    assert allowed.tolist() == [False, True]
    assert not drawn[0].any()
    raised = Memory(SECRET, "2", Ledger(tmp_path / "ledger", 4))
    raised.release(policy, ["a"], np.array([0]))
    assert raised.spent("a") == 4


def test_who_is_refused_has_spent_nothing_by_it(tmp_path, policy):
    memory = Memory(SECRET, "", Ledger(tmp_path / "ledger", 2))
    with pytest.raises(SpentError):
        memory.release(policy, ["a", "a", "a", "b"], np.array([0, 1, 2, 0]))
    assert (memory.spent("a"), memory.spent("b")) == (0, 0)
    with pytest.raises(OutsideError):
        memory.release(policy, ["a"], np.array([-1]))
    with pytest.raises(ParameterError, match="1 people, but 2 regions"):
        memory.release(policy, ["a"], np.array([0, 1]))
    assert memory.spent("a") == 0


def test_a_ledger_names_nobody_and_no_place(tmp_path, policy):
    memory = Memory(SECRET, "1", Ledger(tmp_path / "ledger", 3))
    memory.release(policy, ["Ada Lovelace"], np.array([0]))
    content = (tmp_path / "ledger").read_bytes()
    assert b"Ada" not in content
    again = Memory(bytes(32), "1", Ledger(tmp_path / "ledger", 3))
    assert again.spent("Ada Lovelace") == 0  # without the secret nobody is found


def test_a_damaged_ledger_is_said(tmp_path, policy):
    (tmp_path / "ledger").write_bytes(b"not a database, but long enough to be looked at" * 30)
    with pytest.raises(DataError, match="cannot use the ledger"):
        Memory(SECRET, "", Ledger(tmp_path / "ledger", 3)).release(policy, ["a"], np.array([0]))
    with pytest.raises(DataError, match="cannot use the ledger"):
        Ledger(tmp_path / "no" / "ledger", 3).spent(b"a")
    with pytest.raises(ParameterError, match="limit"):
        Ledger(tmp_path / "l", -1)


def test_many_at_once_never_spend_more_than_the_limit(tmp_path):
    ledger = Ledger(tmp_path / "ledger", 25)

    def spend(number: int) -> int:
        marks = [bytes([number, draw]) for draw in range(10)]
        return int(ledger.spend([b"a"] * 10, marks).sum())

    with ThreadPoolExecutor(6) as threads:
        allowed = list(threads.map(spend, range(6)))
    assert sum(allowed) == 25 == ledger.spent(b"a")


SPENDER = """
import sys
import numpy as np
from distp.release import Ledger, Memory, Policy
policy, ledger = Policy.load(sys.argv[1]), Ledger(sys.argv[2], 10**6)
memory = Memory(bytes(range(32)), "", ledger)
print("ready", flush=True)
for number in range(int(sys.argv[3]), 10**6):
    drawn = memory.release(policy, [f"p{number % 7}"], np.array([number // 7 % 9]))
    print(number, drawn[0].tolist(), flush=True)
"""


def test_a_draw_that_was_seen_is_counted_whenever_the_process_is_killed(tmp_path, policy):
    policy.save(tmp_path / "p.policy")
    rng, start, shown = random.Random(5), 0, {}
    for _ in range(3):
        words = [sys.executable, "-c", SPENDER, tmp_path / "p.policy", tmp_path / "ledger", str(start)]
        child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.02, 0.3))
        os.kill(child.pid, signal.SIGKILL)
        for line in child.stdout.read().splitlines():
            number, _, rest = line.partition(" ")
            if not rest.endswith("]"):
                continue  # cut off
            person, region = f"p{int(number) % 7}", int(number) // 7 % 9
            drawn = json.loads(rest)
            assert shown.setdefault((person, region), drawn) == drawn  # the same through every crash
            start = int(number) + 1
        child.wait()
        child.stdout.close()
    memory = Memory(SECRET, "", Ledger(tmp_path / "ledger", 10**6))
    for person in (f"p{number}" for number in range(7)):
        seen = len([one for one, _ in shown if one == person])
        assert seen <= memory.spent(person) <= seen + 3  # a crash may leave one counted that nobody saw
