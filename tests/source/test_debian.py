"""The Debian package of a tarball of `./belljar --dist`."""

import importlib.util
import shutil
import subprocess

import pytest
from conftest import ROOT

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is Debian's")


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"packaging/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_package_of_a_tarball(belljar, workdir):
    folder = workdir / "scripts"
    folder.mkdir()
    shutil.copy(belljar, folder / "belljar")
    archive = workdir / "belljar-9.8.7-linux-x86_64.tar.gz"
    load("dist").tarball(archive, "9.8.7", folder, 1_000_000_000)
    made = [load("debian").package(archive, out) for out in (workdir / "one", workdir / "two") if out.mkdir() is None]
    assert made[0].name == "belljar_9.8.7_amd64.deb" and made[0].read_bytes() == made[1].read_bytes()
    fields = subprocess.run(["dpkg-deb", "--field", made[0]], check=True, capture_output=True, text=True).stdout
    assert "Package: belljar\nVersion: 9.8.7\nArchitecture: amd64\n" in fields and "Depends: libc6 (>= 2.28)" in fields
    listed = subprocess.run(["dpkg-deb", "--contents", made[0]], check=True, capture_output=True, text=True).stdout
    for name in ("usr/bin/belljar", "usr/share/man/man1/belljar-run.1.gz", "usr/share/zsh/vendor-completions/_belljar", "usr/share/doc/belljar/examples/first.yaml"):
        assert " root/root " in listed and f"./{name}\n" in listed, name
    subprocess.run(["dpkg-deb", "--extract", made[0], workdir / "root"], check=True)
    done = subprocess.run([workdir / "root/usr/bin/belljar", "exec", "--", "date", "+%Y"], capture_output=True, text=True)
    assert done.stdout == "2000\n", done
