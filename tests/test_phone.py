"""The reference reader in plain Python says and does what the library says and does."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from distp import Policy
from distp.spaces.projection import to_km
from test_sampling import ALPHA, chi_square_p, tilted

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples/phone.py"
NAMES = ["uniform", "weighted", "distinct", "polygons"]


def load(name: str):
    spec = spec_from_file_location("phone", FILE)
    phone = module_from_spec(spec)
    spec.loader.exec_module(phone)
    path = ROOT / f"tests/data/{name}-v1.policy"
    return phone, phone.Policy(str(path)), Policy.load(path)


def test_it_is_short_and_needs_nothing():
    text = FILE.read_text()
    assert len(text.splitlines()) < 200
    imports = {
        alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imports <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("anchor", [(40.75, -73.97), (-33.9, 151.2), (69.6, 18.9), (0.0, 180.0), (-84.0, -179.5)])
def test_its_projection_is_that_of_the_library(anchor):
    phone, *_ = load("uniform")
    rng = np.random.default_rng(2)
    lat = np.clip(anchor[0] + rng.normal(0, 0.5, 200), -89, 89)
    lon = (anchor[1] + rng.normal(0, 0.5, 200) + 180) % 360 - 180
    lat[0], lon[0] = anchor
    here = np.array([phone.to_km(*anchor, *place) for place in zip(lat.tolist(), lon.tolist(), strict=True)])
    there = np.column_stack(to_km(*anchor, lat, lon))
    assert np.abs(here - there).max() < 1e-6  # km: a millimetre


@pytest.mark.parametrize("name", NAMES)
def test_it_finds_the_same_region(name):
    _, small, policy = load(name)
    rng = np.random.default_rng(3)
    box = policy.regions.box
    lat = box.lat + (box.height * rng.uniform(-0.3, 1.3, 300) + box.south) / 111
    lon = box.lon + (box.width * rng.uniform(-0.3, 1.3, 300) + box.west) / 84
    found = [small.locate(*place) for place in zip(lat.tolist(), lon.tolist(), strict=True)]
    assert found == policy.locate(lat, lon).tolist()
    assert len(set(found)) > 8


@pytest.mark.parametrize("name", NAMES)
def test_it_draws_by_the_same_law(name):
    """One place often: every output's share among the places of the tuples is that of the mechanism."""
    _, small, policy = load(name)
    drawn = np.array([small.report(0) for _ in range(15_000)])
    assert drawn.shape == (15_000, policy.dummies + 1)
    mechanism = policy.mechanism
    real = np.asarray(mechanism.base.channel().toarray()[0])
    nu = mechanism.dummy_distribution
    law = (real + policy.dummies * nu) / (policy.dummies + 1)
    if not policy.replacement:
        law = (real + policy.dummies * (1 - real) / (real.size - 1)) / (policy.dummies + 1)
        assert (np.diff(drawn, axis=1) > 0).all()
        right_sets(drawn, law)
        return
    counts = np.bincount(drawn.ravel(), minlength=law.size)
    assert chi_square_p(counts, law) > ALPHA
    assert chi_square_p(counts, tilted(law, 1.2)) < ALPHA  # plain Python draws too few for 5 %


def right_sets(drawn, law):
    # The places of a set are not independent: each output's count is binomial, compared by itself.
    counts = np.bincount(drawn.ravel(), minlength=law.size)
    share = law * drawn.shape[1]
    errors = (counts - drawn.shape[0] * share) / np.sqrt(drawn.shape[0] * share * (1 - share) + 1e-9)
    assert np.abs(errors).max() < 5.5


def test_it_runs_and_refuses(tmp_path):
    path = ROOT / "tests/data/uniform-v1.policy"
    words = [sys.executable, "-I", str(FILE), str(path), "40.75", "-73.97"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)) == 4
    away = subprocess.run([*words[:4], "48.85", "2.35"], capture_output=True, text=True, check=False)
    assert (away.returncode, "outside" in away.stderr, "48" in away.stderr) == (1, True, False)
    damaged = tmp_path / "a.policy"
    text = (ROOT / "tests/data/uniform-v1-plain.policy").read_text()
    damaged.write_text(text.replace('"count": 3', '"count": 2'))
    with pytest.raises(ValueError, match="checksum"):
        load("uniform")[0].Policy(str(damaged))
