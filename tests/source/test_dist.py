"""What is given away: wheel, source distribution, tarball. BELLJAR_DIST names a folder that `./belljar --dist` has filled; without it the
slow tests build one, which takes as long as a release build. BELLJAR_DIST_AGAIN names one that was filled once more, from a checkout of the same
commit elsewhere: all bytes are compared."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import time
import venv
import zipfile

import pytest
from conftest import EXAMPLES, ROOT

OLDEST_GLIBC = (2, 28)


def load(name):
    spec = importlib.util.spec_from_file_location("dist", ROOT / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def extract(archive, folder):
    """Python warns without a filter, and has none before 3.11.4."""
    archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def test_both_packages_say_the_same():
    tomllib = pytest.importorskip("tomllib")
    whole, alone = (tomllib.loads((ROOT / path).read_text()) for path in ("pyproject.toml", "python/pyproject.toml"))
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert alone["project"]["version"] == version and whole["project"]["dynamic"] == ["version"]
    for key in ("name", "requires-python", "dependencies", "optional-dependencies", "entry-points"):
        assert whole["project"][key] == alone["project"][key], key
    schema = ROOT / "python/belljar/experiment.schema.json"
    assert schema.resolve() == ROOT / "crates/cli/src/experiment.schema.json"


def test_an_archive_depends_on_its_files_alone(workdir):
    dist = load("packaging/dist.py")
    for name, order in (("one", "abc"), ("two", "cba")):
        folder = workdir / name
        (folder / "bin").mkdir(parents=True)
        for letter in order:
            (folder / "bin" / letter).write_text(letter)
        (folder / "bin/a").chmod(0o700)
        os.utime(folder / "bin/b", (len(name), len(order)))
        dist.write_tar(workdir / f"{name}.tar.gz", folder, "belljar-1", 1_000_000_000)
        time.sleep(1.1)
    assert (workdir / "one.tar.gz").read_bytes() == (workdir / "two.tar.gz").read_bytes()
    with tarfile.open(workdir / "one.tar.gz") as archive:
        modes = {entry.name: oct(entry.mode) for entry in archive}
    assert modes == {"belljar-1/bin": "0o755", "belljar-1/bin/a": "0o755", "belljar-1/bin/b": "0o644", "belljar-1/bin/c": "0o644"}


@pytest.mark.needs("unshare")
@pytest.mark.parametrize("target", ["inside", "elsewhere"])
def test_builds_see_one_place(workdir, monkeypatch, target):
    dist = load("packaging/dist.py")
    checkout, elsewhere = workdir / "checkout", workdir / "elsewhere"
    checkout.mkdir()
    (checkout / "file").write_text("here")
    monkeypatch.setattr(dist, "ROOT", checkout)
    monkeypatch.setattr(dist, "TARGET", checkout / "target" if target == "inside" else elsewhere)
    seen = dist.PLACE / "target" if target == "inside" else dist.TARGET_PLACE
    command = dist.at_place(["sh", "-c", f"pwd; cat file; echo built > {seen}/made"], [workdir])
    if command is None:
        pytest.skip("this user may not make mount namespaces")
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{dist.PLACE}\nhere"
    assert (dist.TARGET / "made").read_text() == "built\n"
    # What would be hidden is left where it is.
    assert dist.at_place(["true"], [dist.PLACE / "wheels"]) is None


def test_the_recipe_and_the_workflow():
    import yaml

    recipe = (ROOT / "docs/use/Containerfile").read_text()
    assert recipe.count("\nFROM ") == 1 and "COPY belljar-*.whl" in recipe
    workflow = yaml.safe_load((ROOT / "docs/use/github-workflow.yml").read_text())
    steps = workflow["jobs"]["seeds"]["steps"]
    # Nothing of ours that does not exist.
    assert {step["uses"].split("@")[0] for step in steps if "uses" in step} == {"actions/checkout", "actions/setup-python", "actions/upload-artifact"}
    plugin = (ROOT / "python/belljar/pytest_plugin.py").read_text()
    for option in re.findall(r"--belljar-\w+", " ".join(step.get("run", "") for step in steps)):
        assert f'"{option}"' in plugin


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    given = os.environ.get("BELLJAR_DIST")
    if given:
        return pathlib.Path(given).resolve()
    for program in ("cargo", "objcopy"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("dist")
    built = subprocess.run([ROOT / "belljar", "--dist", folder], capture_output=True, text=True, timeout=3000)
    assert built.returncode == 0, (built.stdout + built.stderr)[-4000:]
    return folder


@pytest.fixture
def installed(dist, workdir):
    """The wheel in an environment of its own, where there is no cargo."""
    venv.create(workdir / "venv", with_pip=True)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(workdir), "PIP_DISABLE_PIP_VERSION_CHECK": "1",
           **{k: v for k, v in os.environ.items() if k.startswith("PIP_") or k.endswith("_proxy") or "CERT" in k or "CA_BUNDLE" in k}}
    began = time.monotonic()
    wheel = next(dist.glob("belljar-*.whl"))
    subprocess.run([workdir / "venv/bin/pip", "install", "-q", wheel, "pytest"], env=env, check=True, timeout=600)
    return workdir / "venv/bin", env, time.monotonic() - began


@pytest.mark.slow
@pytest.mark.needs("curl")
def test_the_wheel_in_an_empty_environment(installed, workdir):
    programs, env, took = installed
    (workdir / "first.yaml").write_text((EXAMPLES / "first.yaml").read_text())

    def call(*command, **more):
        done = subprocess.run([programs / command[0], *command[1:]], cwd=workdir, env={**env, **more}, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    began = time.monotonic()
    call("belljar", "run", "first.yaml", "-o", "first.data")
    first = time.monotonic() - began
    print(f"pip install: {took:.1f} s, first example: {first:.1f} s")
    assert len(list(workdir.glob("first.data/hosts/*/curl.*.stdout"))) == 3
    version = call("belljar", "--version")
    assert call("python", "-m", "belljar", "--version") == version
    assert "olsr" in call("belljar-routed", "--help")
    assert call("python", "-c", "import belljar; print(belljar.find_binary())").strip() == str((programs / "belljar").resolve())
    assert call("python", "-c", "import belljar; print(belljar.find_binary())", BELLJAR_BIN="/bin/true").strip() == str(pathlib.Path("/bin/true").resolve())
    assert call("python", "-c", "import belljar; print(belljar.SCHEMA.read_text(), end='')") == call("belljar", "schema")
    assert "3 runs in out" in call("belljar", "sweep", "first.yaml", "--seeds", "3", "-o", "out")
    (workdir / "test_it.py").write_text("import belljar as b\ndef test_it(belljar):\n    e = b.Experiment(stop_time='1 s')\n    e.host('a').run('/bin/true')\n    belljar.run(e)\n")
    assert "1 passed" in call("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_it.py")


@pytest.mark.slow
@pytest.mark.needs("objdump", "readelf")
def test_the_programs_in_the_wheel(dist, workdir):
    wheel = next(dist.glob("belljar-*.whl"))
    assert wheel.name.endswith("-py3-none-manylinux_2_28_x86_64.whl")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        content.extractall(workdir)
        telling = [name for name in names if str(ROOT).encode() in content.read(name)]
    assert not telling, "they name a folder of the machine that has built them"
    assert {"belljar/__init__.py", "belljar/py.typed", "belljar/experiment.schema.json", "belljar/pytest_plugin.py"} <= set(names)
    with tarfile.open(next(dist.glob("*-debug.tar.gz"))) as archive:
        extract(archive, workdir / "debug")

    def said(*command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    programs = sorted(workdir.glob("belljar-*.data/scripts/*"))
    assert [program.name for program in programs] == ["belljar", "belljar-routed"]
    for program in programs:
        needed = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", said("objdump", "-T", program))}
        assert needed and max(needed)[:2] <= OLDEST_GLIBC, max(needed)
        libraries = set(re.findall(r"NEEDED.*\[([\w-]+)\.so", said("readelf", "-d", "-W", program)))
        assert libraries <= {"libc", "libm", "libdl", "librt", "libpthread", "ld-linux-x86-64"}
        assert ".debug_info" not in said("readelf", "-S", "-W", program)
        (apart,) = workdir.glob(f"debug/*/{program.name}.debug")
        ids = [re.search(r"Build ID: (\w+)", said("readelf", "-n", file))[1] for file in (program, apart)]
        assert ids[0] == ids[1] and ".debug_line" in said("readelf", "-S", "-W", apart)


@pytest.mark.slow
def test_two_builds_are_the_same(dist):
    again = os.environ.get("BELLJAR_DIST_AGAIN")
    if again is None:
        pytest.skip("BELLJAR_DIST_AGAIN names no folder of another build")
    one, other = ({file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir()} for folder in (dist, again))
    assert sorted(one) == sorted(other)
    assert not [name for name in one if one[name] != other[name]]


@pytest.mark.slow
def test_tarball_and_source(dist, workdir):
    with tarfile.open(next(dist.glob("*-linux-x86_64.tar.gz"))) as archive:
        names = {"/".join(name.split("/")[1:]) for name in archive.getnames()}
    assert {"bin/belljar", "bin/belljar-composer", "bin/belljar-maelstrom", "bin/belljar-routed", "share/man/man1/belljar.1", "share/man/man1/belljar-run.1", "share/bash-completion/completions/belljar",
            "share/doc/belljar/examples/first.yaml", "share/doc/belljar/LICENSE-MIT"} <= names
    with tarfile.open(next(path for path in dist.glob("belljar-*.tar.gz") if "linux" not in path.name)) as archive:
        names = {"/".join(name.split("/")[1:]) for name in archive.getnames()}
    assert {"Cargo.lock", "crates/cli/src/main.rs", "python/belljar/__init__.py", "pyproject.toml", ".cargo/config.toml"} <= names
    # It has fewer crates than the lock file, which a build from it must be free to shorten.
    tomllib = pytest.importorskip("tomllib")
    assert not tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["maturin"].get("locked")
    with tarfile.open(next(path for path in dist.glob("belljar-*.tar.gz") if "linux" not in path.name)) as archive:
        extract(archive, workdir)
    source = next(workdir.glob("belljar-*"))
    resolved = subprocess.run(["cargo", "metadata", "--format-version", "1"], cwd=source, capture_output=True, text=True, timeout=600)
    assert resolved.returncode == 0, resolved.stderr
