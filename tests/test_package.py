"""The package as such: one version, a quick import, a wheel that works away from the sources."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import windtunnel

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, **options) -> str:
    """Run a command, insist on success, return what it printed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{command} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_version_has_one_source():
    assert importlib.metadata.version("windtunnel") == windtunnel.__version__
    assert run(Path(sys.executable).with_name("windtunnel"), "--version").split()[-1] == windtunnel.__version__


def test_documents_carry_the_version():
    assert f"version: {windtunnel.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## [{windtunnel.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_import_is_quick_and_loads_nothing_heavy():
    code = (
        "import sys, time; start = time.perf_counter(); import windtunnel; dir(windtunnel);"
        "print(time.perf_counter() - start, *sys.modules)"
    )
    outputs = [run(sys.executable, "-c", code).split() for _ in range(3)]
    assert min(float(seconds) for seconds, *_ in outputs) < 0.5
    loaded = {name.split(".")[0] for name in outputs[0][1:]}
    assert loaded.isdisjoint({"torch", "numpy", "scipy", "jaxtyping", "tyro", "rich", "matplotlib", "plotly"})


def test_lazy_names_resolve():
    for name in (*windtunnel._ROOMS, *windtunnel._HOMES):
        assert name in dir(windtunnel)
        assert getattr(windtunnel, name) is not None
    assert not {"Any", "TYPE_CHECKING", "annotations", "importlib"} & {*dir(windtunnel)}
    with pytest.raises(AttributeError, match="no_such_room"):
        _ = windtunnel.no_such_room


def test_type_checkers_see_exactly_the_lazy_names():
    tree = ast.parse((ROOT / "windtunnel" / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == {*windtunnel._ROOMS, *windtunnel._HOMES}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_holds_the_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {str(path.relative_to(ROOT).as_posix()) for path in (ROOT / "windtunnel").rglob("*.py")}
    assert sources <= names
    assert "windtunnel/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"windtunnel", f"windtunnel-{windtunnel.__version__}.dist-info"}


def test_wheel_installs_and_runs_elsewhere(wheel, tmp_path):
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps")
    run(*pip, "--no-build-isolation", "--target", site, wheel)

    code = "import windtunnel, windtunnel.tunnels as t; print(windtunnel.__file__, t.__file__, windtunnel.__version__)"
    environment = {**os.environ, "PYTHONPATH": str(site)}  # comes before the installed, editable copy
    package, room, version = run(sys.executable, "-c", code, cwd=elsewhere, env=environment).split()
    assert Path(package) == site / "windtunnel" / "__init__.py"
    assert Path(room).is_relative_to(site)
    assert (site / "windtunnel" / "py.typed").is_file()
    assert version == windtunnel.__version__

    answer = run(sys.executable, site / "bin" / "windtunnel", "--version", cwd=elsewhere, env=environment)
    assert answer.split()[-1] == windtunnel.__version__
