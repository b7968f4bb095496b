#!/usr/bin/env python3
"""Builds what is given away: wheel, source distribution, tarball, and debug information apart from them. `./belljar --dist DIR` runs it.

The program is to be linked against glibc 2.28's symbols by zig's linker, which PyPI has, for manylinux_2_28 (Debian 10, Ubuntu 20.04,
RHEL 8 and later), and two builds of one commit by one compiler are to give the same bytes."""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
#: Fixed, since what builds is part of what is built.
TOOLS = ["maturin==1.16.0", "ziglang==0.17.1"]
TRIPLE = "x86_64-unknown-linux-gnu"
SHELLS = {"bash": "bash-completion/completions/belljar", "zsh": "zsh/site-functions/_belljar", "fish": "fish/vendor_completions.d/belljar.fish"}


def tools() -> pathlib.Path:
    """An environment with maturin and zig: the folder of its programs."""
    venv = TARGET / "dist-venv"
    programs = venv / "bin"
    if subprocess.run([programs / "python", "-c", "import maturin, ziglang"], capture_output=True).returncode if programs.is_dir() else True:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS], check=True)
    return programs


def environment(programs: pathlib.Path) -> dict[str, str]:
    """Of the builds: nothing in what they make names this machine, its folders or the time."""
    home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
    flags = [f"--remap-path-prefix={ROOT}=/belljar", f"--remap-path-prefix={home}=/cargo", "-Clink-arg=-Wl,--build-id=sha1"]
    profile = os.environ.get("BELLJAR_PROFILE_USE")
    if profile:
        flags += [f"-Cprofile-use={profile}", "-Cllvm-args=-no-pgo-warn-mismatch"]
    commit = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or commit.stdout.strip() or "946684800"
    return {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "SOURCE_DATE_EPOCH": epoch, "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
            "PATH": f"{programs}{os.pathsep}{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def build(programs: pathlib.Path, env: dict[str, str], out: pathlib.Path, *more: str) -> pathlib.Path:
    """A wheel; gives its path."""
    command = [programs / "maturin", "build", "--release", "--locked", "--zig", "--compatibility", "manylinux_2_28", "--target", TRIPLE, "--out", out, *more]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    return max(out.glob("belljar-*.whl"), key=lambda path: path.stat().st_mtime_ns)


def program_of(wheel: pathlib.Path) -> tuple[str, bytes]:
    """The version of a wheel and the program in it."""
    with zipfile.ZipFile(wheel) as content:
        version = wheel.name.split("-")[1]
        return version, content.read(f"belljar-{version}.data/scripts/belljar")


def tarball(path: pathlib.Path, version: str, program: bytes, epoch: int) -> None:
    """Program, manual pages, completions, schema and licences, in the folders that /usr/local has."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        binary = folder / "bin/belljar"
        binary.parent.mkdir()
        binary.write_bytes(program)
        binary.chmod(0o755)
        subprocess.run([binary, "man", folder / "share/man/man1"], check=True)
        for shell, name in SHELLS.items():
            file = folder / "share" / name
            file.parent.mkdir(parents=True)
            file.write_bytes(subprocess.run([binary, "completions", shell], check=True, capture_output=True).stdout)
        about = folder / "share/doc/belljar"
        about.mkdir(parents=True)
        for name in ("README.md", "CHANGELOG.md", "LICENSE", "LICENSE-APACHE", "LICENSE-MIT"):
            shutil.copy(ROOT / name, about)
        shutil.copy(ROOT / "crates/cli/src/experiment.schema.json", about)
        shutil.copytree(ROOT / "examples", about / "examples", ignore=shutil.ignore_patterns("built", "__pycache__", "*.data"))
        write_tar(path, folder, f"belljar-{version}", epoch)


def write_tar(path: pathlib.Path, folder: pathlib.Path, top: str, epoch: int) -> None:
    """A compressed archive of a folder that depends on nothing but its files."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(folder.rglob("*")):
            entry = archive.gettarinfo(str(file), f"{top}/{file.relative_to(folder)}")
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = epoch
            entry.mode = 0o755 if file.is_dir() or os.access(file, os.X_OK) else 0o644
            with file.open("rb") if file.is_file() else io.BytesIO() as content:
                archive.addfile(entry, content if file.is_file() else None)
    path.write_bytes(gzip.compress(data.getvalue(), mtime=epoch))


def debug_information(wheel: pathlib.Path, path: pathlib.Path, epoch: int) -> None:
    """What a debugger wants, from the same program before it was stripped."""
    with tempfile.TemporaryDirectory() as scratch:
        whole, apart = pathlib.Path(scratch, "belljar"), pathlib.Path(scratch, "belljar.debug")
        whole.write_bytes(program_of(wheel)[1])
        subprocess.run(["objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", whole, apart], check=True)
        path.write_bytes(gzip.compress(apart.read_bytes(), mtime=epoch))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: ./belljar --dist DIR")
    if shutil.which("objcopy") is None:
        sys.exit("belljar: --dist needs objcopy: apt-get install binutils, or your system's equal")
    out = pathlib.Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    programs = tools()
    env = environment(programs)
    epoch = int(env["SOURCE_DATE_EPOCH"])
    wheel = build(programs, env, out, "--strip")
    subprocess.run([programs / "maturin", "sdist", "--out", out], cwd=ROOT, env=env, check=True)
    version, program = program_of(wheel)
    tarball(out / f"belljar-{version}-linux-x86_64.tar.gz", version, program, epoch)
    with tempfile.TemporaryDirectory() as scratch:
        # The same objects, linked once more.
        debug_information(build(programs, env, pathlib.Path(scratch)), out / f"belljar-{version}-linux-x86_64.debug.gz", epoch)
    print(*sorted(str(path) for path in out.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
