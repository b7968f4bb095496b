"""Programs that the bench of exploration takes from PyPI, npm, the Go module proxy, crates.io, Maven and Debian, by these registries' own clients: each is installed or built once."""

import contextlib
import os
import shutil
import subprocess
import sys

from common import BUILT

PACKAGES = BUILT / "explore-packages"
PROGRAMS = BUILT / "explore-programs"


@contextlib.contextmanager
def made_once(path):
    """Yields a path beside `path`, which becomes `path` at the end; nothing if `path` exists."""
    part = path.with_name(f"{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    yield part
    part.rename(path)


def pypi(name, version, *more):
    """A folder with this version of a package of PyPI, and with other requirements."""
    folder = PACKAGES / f"{name}-{version}"
    if not folder.is_dir():
        with made_once(folder) as part:
            subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--root-user-action", "ignore", "--target", part, f"{name}=={version}", *more], check=True)
    return folder


def npm(name, version):
    """The folder `node_modules` with this version of a package of npm."""
    folder = PACKAGES / f"{name}-{version}"
    if not folder.is_dir():
        with made_once(folder) as part:
            part.mkdir()
            subprocess.run(["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", part, f"{name}@{version}"], check=True)
    return folder / "node_modules"


def go(name, module, version, source=None):
    """The program that this version of a Go module is, or that a source of ours is with it."""
    program = PROGRAMS / f"{name}-{version}"
    if not program.is_file():
        with made_once(program) as part:
            folder = PROGRAMS / f"{name}-{version}.module"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "go.mod").write_text("module bench\n")
            if source:
                shutil.copy(source, folder)
            for command in (["get", f"{module}@v{version}"], ["build", "-mod=mod", "-o", part, "." if source else module]):
                subprocess.run(["go", *command], cwd=folder, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    return program


def cargo(folder):
    """The program of a package in a folder of ours; its dependencies are of crates.io."""
    target = PROGRAMS / f"{folder.name}-target"
    subprocess.run(["cargo", "build", "--quiet", "--release", "--manifest-path", folder / "Cargo.toml", "--target-dir", target], check=True)
    return target / "release" / folder.name


def java(source, group, name, version):
    """The class path of a program of ours in one file, with an archive of Maven."""
    folder = PACKAGES / f"{name}-{version}"
    archive = folder / f"{name}-{version}.jar"
    if not folder.is_dir():
        with made_once(folder) as part:
            subprocess.run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={group}:{name}:{version}", f"-DoutputDirectory={part}"], check=True)
    subprocess.run(["javac", "-cp", archive, "-d", folder, source], check=True)
    return f"{folder}:{archive}"


def mariadb():
    """A folder with Debian's MariaDB and Galera, which are not installed for it, and the files of a new database."""
    folder = PACKAGES / "mariadb"
    if not folder.is_dir():
        with made_once(folder) as part:
            part.mkdir()
            packages = ["mariadb-server", "mariadb-server-core", "mariadb-common", "mariadb-client-core", "galera-4"]
            subprocess.run(["apt-get", "-qq", "download", *packages], cwd=part, check=True)
            for archive in part.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", archive, part], check=True)
            options = ["--no-defaults", f"--basedir={part}/usr", f"--datadir={part}/data", "--auth-root-authentication-method=normal", "--user=root", "--skip-test-db",
                       "--innodb-log-file-size=4M", "--innodb-data-file-path=ibdata1:4M:autoextend"]
            subprocess.run([part / "usr/bin/mariadb-install-db", *options], check=True, stdout=subprocess.DEVNULL)
    return folder
