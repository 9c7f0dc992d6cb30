"""The project itself: public names, rooms that do not reach back, a light import, no default seeds."""

from __future__ import annotations

import ast
import gzip
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import distp

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/distp"
# docs/architecture.md draws the same order: a room imports only from rooms before it.
ROOMS = [
    "errors",
    "checks",
    "files",
    "compiled",
    "spaces",
    "distributions",
    "transport",
    "data",
    "mechanisms",
    "privacy",
    "utility",
] + ["attacks", "certificates", "calibration", "release", "spark", "experiments", "report", "cli"]
CONTRACT = [
    "Space",
    "Regions",
    "Channel",
    "Identity",
    "RandomizedResponse",
    "Exponential",
    "PlanarLaplace",
    "PlanarGaussian",
    "RestrictedLaplace",
    "Tupling",
    "delta",
    "epsilon",
    "theorem3",
    "expected_loss",
    "attack_success",
    "calibrate",
    "Policy",
]


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_contract_names_are_public_documented_and_exported():
    assert set(CONTRACT) <= set(distp.__all__)
    for name in distp.__all__:
        assert inspect.getdoc(getattr(distp, name)), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = distp.nothing


def test_the_type_checker_sees_the_same_names_as_the_interpreter():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    shown = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert shown == set(distp.__all__)


def test_every_public_name_is_used_in_the_tests():
    text = "".join(
        path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path.name != "test_project.py"
    )
    unused = [name for name in distp.__all__ if not re.search(rf"\b{name}\b", text)]
    assert unused == []


@pytest.mark.parametrize(
    ("names", "spared"),
    [
        (
            "distp.calibrate, distp.delta, distp.Regions, distp.RestrictedLaplace",
            "pyproj polars matplotlib typer rich",
        ),
        ("distp.Policy, distp.release.Memory; from distp.cli.query import run", "pyproj polars matplotlib"),
    ],
)
def test_nobody_waits_for_what_is_not_used(names, spared):
    script = (
        f"import sys, distp, distp.release; {names};"
        f"print([module for module in '{spared} jinja2'.split() if module in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def room(module: str) -> str:
    return module.split(".")[1] if module.count(".") else module


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_room_reaches_back(path):
    relative = path.relative_to(SOURCE)
    own = relative.parts[0].removesuffix(".py")
    if own == "__init__":
        return
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("distp."):
            target = room(node.module)
            assert ROOMS.index(target) <= ROOMS.index(own), f"{relative} imports {node.module}"


def test_modules_stay_small():
    sizes = {str(path.relative_to(SOURCE)): path.read_text().count("\n") for path in modules()}
    assert {name: size for name, size in sizes.items() if size > 420} == {}


def test_no_function_has_a_default_seed_and_nobody_touches_global_random_state():
    for path in modules():
        text = path.read_text()
        assert not re.search(r"np\.random\.(seed|rand|choice|randint|shuffle)\b|random\.seed", text), path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in node.args.args[len(node.args.args) - len(node.args.defaults) :]]
                assert "seed" not in names, f"{path}: {node.name}"


def test_no_address_and_no_local_path_in_any_file():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.split() if listed.returncode == 0 else []
    for name in names:
        if name.endswith((".png", ".csv")):
            continue
        content = (ROOT / name).read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")
        assert not re.search(r"https?://\S*(pypi|pythonhosted|npmjs|debian)", text), name


@pytest.mark.parametrize("name", sorted({path.parent.name for path in modules()} - {"distp"}))
def test_every_room_says_what_it_is(name):
    assert inspect.getdoc(importlib.import_module(f"distp.{name}"))


def test_python_in_the_readme_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    done = subprocess.run([sys.executable, "-W", "error", "-c", blocks[0]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4


def test_links_in_the_documents_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
