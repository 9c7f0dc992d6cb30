"""Policy files: what comes back is what was saved, and what is damaged never draws."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distp import Pair, Policy, Regions, RestrictedLaplace, Tupling
from distp.errors import PolicyError
from distp.release import policyfile
from distp.release.policybody import to_body
from distp.spaces import Box
from test_release import make_policy

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def policy() -> Policy:
    return make_policy()


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


def test_a_policy_can_be_read_and_followed_without_the_library(tmp_path, policy):
    policy.save(tmp_path / "a.policy")
    script = """
import gzip, json, hashlib, sys
d = json.load(gzip.open(sys.argv[1]))
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


def document(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))


def resigned(path: Path, body: dict) -> None:
    """Write a body, whatever it is, with the checksum that belongs to it: as plain text, which readers take too."""
    signed = {"format": "distp-policy", "version": 1, "sha256": policyfile.digest(body), "policy": body}
    path.write_text(json.dumps(signed))


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
    body = document(path)["policy"]
    change(body)
    resigned(path, body)
    with pytest.raises(PolicyError, match=match):
        Policy.load(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.booleans())
def test_any_changed_byte_is_noticed(tmp_path_factory, policy, data, plain):
    path = tmp_path_factory.mktemp("fuzz") / "a.policy"
    policy.save(path)
    body = document(path)["policy"]
    if plain:
        resigned(path, body)
    raw = bytearray(path.read_bytes())
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
    # What still loads differs in white space, spelling or gzip's own notes: it says the same, to the last digit.
    assert policyfile.read(path) == body


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**53, 2**53 - 1, 2**63, -(2**70), 10**400, 1e-300, 1e308, 0.5, -0.0])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def means(said, written) -> bool:
    """Tell whether all that a file said is written again; older files say less than newer ones."""
    if isinstance(said, dict):
        return isinstance(written, dict) and all(key in written and means(said[key], written[key]) for key in said)
    if isinstance(said, list):
        return len(said) == len(written) and all(map(means, said, written))
    return said == written


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(["uniform", "weighted", "distinct", "polygons"]))
def test_a_policy_of_any_other_structure_is_refused_or_meant(tmp_path_factory, data, name):
    """Change, drop or double any part, with a right checksum: what loads says just that, and draws by it."""
    path = tmp_path_factory.mktemp("fuzz") / "a.policy"
    body = policyfile.read(DATA / f"{name}-v1.policy")
    at = body
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        deeper = at[key]
        if not (isinstance(deeper, (dict, list)) and deeper) or data.draw(st.integers(0, 4)) == 0:
            break
        at = deeper
    kind = data.draw(st.sampled_from(["put", "put", "drop", "double"]))
    if kind == "put":
        at[key] = data.draw(VALUES)
    elif kind == "drop":
        del at[key]
    elif isinstance(at, list):
        at.insert(key, at[key])
    else:
        at[key + "2"] = at[key]
    resigned(path, body)
    try:
        policy = Policy.load(path)
    except PolicyError:
        return
    drawn = policy.release_inputs(np.zeros(50, dtype=np.int64))
    assert drawn.shape == (50, policy.dummies + 1)
    assert drawn.max() < len(policy.regions)
    again = json.loads(json.dumps(to_body(policy)))
    for part, said in body.items():
        assert part in ("written_by", "regions") or means(said, again[part])
    assert set(body["regions"]) <= {*again["regions"], "holes"}
    for part in ("anchor", "box_km", "inputs", "cell_km", "cells_km", "names", "polygons_km"):
        assert again["regions"].get(part) == body["regions"].get(part)


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


def test_missing_files_and_other_versions_are_named(tmp_path, policy):
    with pytest.raises(PolicyError, match="cannot read"):
        Policy.load(tmp_path / "none.policy")
    with pytest.raises(PolicyError, match="cannot read"):
        Policy.load(tmp_path)
    path = tmp_path / "a.policy"
    policy.save(path)
    path.write_text(json.dumps(document(path) | {"version": 2}))
    with pytest.raises(PolicyError, match="version 2"):
        Policy.load(path)


@pytest.mark.parametrize("name", ["uniform", "weighted", "distinct", "polygons"])
def test_files_of_version_1_load_for_ever(tmp_path, name):
    """Written once, by the first release, plain and compressed. If this fails, raise the version; keep the files."""
    plain, policy = (Policy.load(DATA / f"{name}-v1{kind}.policy") for kind in ("-plain", ""))
    assert to_body(plain) == to_body(policy)
    assert policy.recertify() == policy.certificate
    deltas = {"uniform": 7.8391e-4, "weighted": 1.40179e-3, "distinct": 2.38539e-6, "polygons": 3.06219e-2}
    assert policy.certificate.pairs[0].delta.upper == pytest.approx(deltas[name], rel=1e-4)
    assert policy.dummies == {"uniform": 3, "weighted": 3, "distinct": 6, "polygons": 4}[name]
    assert (policy.dummy_weights is not None) is (name == "weighted")
    assert policy.replacement is (name != "distinct")
    assert policy.outside == ("nearest" if name == "weighted" else "refuse")
    assert policy.regions.square is (name != "polygons")
    assert policy.weight == ("users" if name == "polygons" else "check-ins")
    policy.save(tmp_path / "a.policy")
    Policy.load(tmp_path / "a.policy").save(tmp_path / "b.policy")
    assert (tmp_path / "a.policy").read_bytes() == (tmp_path / "b.policy").read_bytes()


def test_a_small_file_that_holds_a_huge_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(policyfile, "MAX_BYTES", 1 << 20)
    path = tmp_path / "a.policy"
    path.write_bytes(gzip.compress(b" " * (1 << 24)))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(PolicyError, match="larger than 1 MiB"):
        Policy.load(path)
    policy = make_policy()
    policy.save(path)
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole + b"x", whole + whole, whole[:3], b"\x1f\x8b"):
        path.write_bytes(damaged)
        with pytest.raises(PolicyError, match="damaged"):
            Policy.load(path)


def test_small_files_where_no_probability_is_small_and_exact_ones_where_the_target_is_met_to_the_last_digit(tmp_path):
    few = make_policy()
    assert (few.channel.bits, few.channel.total) == (32, 2**32)
    few.save(tmp_path / "few.policy")
    assert Policy.load(tmp_path / "few.policy").recertify() == few.certificate
    assert policyfile.read(tmp_path / "few.policy")["total"] == 2**32
    assert make_policy(nu="given").channel.bits == make_policy(nu="given").dummy_weights.bits
    loose = {"epsilon": 1.0, "prior": few.prior}
    steep = Tupling(RestrictedLaplace(few.regions.inputs, 12.0, 1.6, few.regions), 3)
    assert Policy.create(steep, few.regions, few.pairs, delta=0.9, **loose).channel.bits == 53
    base = RestrictedLaplace(few.regions.inputs, 1.2, 1.6, few.regions)
    fine = Policy.create(Tupling(base, 3), few.regions, few.pairs, delta=0.0, **loose)
    assert fine.channel.bits == 53  # the coarse weights missed the target
    exactly = fine.certificate.worst_pair.delta.upper
    assert Policy.create(Tupling(base, 3), few.regions, few.pairs, delta=exactly, **loose).certificate.holds


def test_the_papers_setting_makes_a_small_file(tmp_path):
    rng = np.random.default_rng(0)
    lat, lon = 40.75 + 0.02 * rng.standard_normal(4000), -73.97 + 0.02 * rng.standard_normal(4000)
    regions = Regions.quadtree(lat, lon, box=Box.around(40.75, -73.97, 12, 11))
    n = len(regions.inputs)
    assert len(regions) == 276
    pair = Pair("a", *rng.dirichlet(np.ones(n), size=2))
    law = rng.dirichlet(np.ones(276))
    mechanism = Tupling(RestrictedLaplace(regions.inputs, 1.0, 2.5, regions), 10, law)
    policy = Policy.create(mechanism, regions, [pair], epsilon=1.0, delta=0.5, prior=np.full(n, 1 / n))
    policy.save(tmp_path / "a.policy")
    assert policy.channel.columns.size > 12_000
    assert (tmp_path / "a.policy").stat().st_size < 100_000
