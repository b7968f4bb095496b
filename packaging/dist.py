#!/usr/bin/env python3
"""Builds what is given away: wheel, source distribution, tarball, and debug information apart from them. `./belljar --dist DIR` runs it.

The program is linked against glibc 2.28's symbols by zig's linker, which PyPI has, for manylinux_2_28 (Debian 10, Ubuntu 20.04, RHEL 8 and
later). Two builds of one commit by one compiler and objcopy give the same bytes, wherever they are made: what zig compiles for each program names the folder
in its debug information and takes no other name, so the checkout is seen at one place while it is built, in a mount namespace."""

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

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
#: Fixed, since what builds is part of what is built.
TOOLS = ["cargo-zigbuild==0.24.1", "maturin==1.16.0", "wheel==0.48.0", "ziglang==0.17.1"]
TRIPLE = "x86_64-unknown-linux-gnu"
#: Where the checkout and its target folder are seen while they are built.
PLACE, TARGET_PLACE = pathlib.Path("/srv"), pathlib.Path("/media")
#: Says that they are.
AT_PLACE = "BELLJAR_DIST_AT_PLACE"
#: Commands that make a mount namespace: root's, and that of a user who may.
NAMESPACES = (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"])
BIND = 'mount --bind "$1" "$2" && mount --bind "$3" "$4" && shift 4 && cd "$0" && exec "$@"'
GLIBC = "2.28"
SHELLS = {"bash": "bash-completion/completions/belljar", "zsh": "zsh/site-functions/_belljar", "fish": "fish/vendor_completions.d/belljar.fish"}


def at_place(command: list[str | pathlib.Path], used: list[pathlib.Path]) -> list[str] | None:
    """A command that runs `command` where the checkout is at PLACE, if that is possible here; `used` are folders that it must see."""
    within = TARGET.is_relative_to(ROOT)
    TARGET.mkdir(parents=True, exist_ok=True)
    binds = [ROOT, PLACE, *((PLACE, PLACE) if within else (TARGET, TARGET_PLACE))]
    hidden = [PLACE] if within else [PLACE, TARGET_PLACE]
    if any(path.resolve().is_relative_to(place) for path in [*used, ROOT, TARGET] for place in hidden):
        return None
    for namespace in NAMESPACES:
        prefix = [*namespace, "sh", "-c", BIND, PLACE, *binds]
        try:
            if subprocess.run([*prefix, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
                return list(map(str, [*prefix, *command]))
        except OSError:
            return None
    return None


def go_to_place(out: pathlib.Path) -> None:
    """Goes on as a process that sees the checkout at PLACE."""
    target = PLACE / TARGET.relative_to(ROOT) if TARGET.is_relative_to(ROOT) else TARGET_PLACE
    home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
    command = at_place([sys.executable, PLACE / "packaging/dist.py", out], [out, home, pathlib.Path(sys.prefix), pathlib.Path(tempfile.gettempdir())])
    if command is None:
        print("belljar: no mount namespace can be made here: debug information and build IDs will depend on the folder that this is built in", file=sys.stderr)
        return
    os.execvpe(command[0], command, {**os.environ, AT_PLACE: "1", "CARGO_TARGET_DIR": str(target), "PWD": str(PLACE)})


def tools() -> pathlib.Path:
    """An environment with the tools that PyPI has: the folder of its programs."""
    # Its programs name the folder that it was made in.
    venv = TARGET / ("dist-tools" if AT_PLACE in os.environ else "dist-venv")
    programs = venv / "bin"
    if not programs.is_dir():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    # Asks nobody if they are there.
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS], check=True)
    return programs


def environment(programs: pathlib.Path) -> dict[str, str]:
    """Of the builds: nothing in what they make names this machine, its folders or the time."""
    home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
    path = f"{programs}{os.pathsep}{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    rustc = shutil.which(os.environ.get("RUSTC", "rustc"), path=path)
    if rustc is None:
        sys.exit("belljar: --dist needs Rust: see https://rustup.rs")
    sysroot = subprocess.run([rustc, "--print", "sysroot"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    # The last one that fits counts: the target's folder is below the root most often.
    names = {ROOT: "/belljar", TARGET: "/target", home: "/cargo", sysroot: "/rust"}
    flags = [f"--remap-path-prefix={folder}={name}" for folder, name in names.items()] + ["-Clink-arg=-Wl,--build-id=sha1"]
    profile = os.environ.get("BELLJAR_PROFILE_USE")
    if profile:
        flags += [f"-Cprofile-use={profile}", "-Cllvm-args=-no-pgo-warn-mismatch"]
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch and (ROOT / ".git").exists() and shutil.which("git"):
        epoch = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    epoch = epoch or "946684800"
    # The allocator is C. These flags come on top of those in .cargo/config.toml.
    c_flags = " ".join(f"-ffile-prefix-map={folder}={name}" for folder, name in names.items())
    return {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "SOURCE_DATE_EPOCH": epoch, "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
            f"CFLAGS_{TRIPLE.replace('-', '_')}": c_flags, "PATH": path}


def build(programs: pathlib.Path, env: dict[str, str], scratch: pathlib.Path) -> pathlib.Path:
    """The wheel unpacked in `scratch`, its programs with debug information: its folder."""
    compatibility = f"manylinux_{GLIBC.replace('.', '_')}"
    command = [programs / "maturin", "build", "--profile", "dist", "--locked", "--zig", "--compatibility", compatibility, "--target", TRIPLE, "--out", scratch]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    # maturin takes the programs of one crate.
    command = [programs / "cargo-zigbuild", "zigbuild", "--profile", "dist", "--locked", "-p", "belljar-routed", "--target", f"{TRIPLE}.{GLIBC}"]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    (whole,) = scratch.glob("belljar-*.whl")
    subprocess.run([programs / "wheel", "unpack", "--dest", scratch / "unpacked", whole], env=env, check=True)
    (unpacked,) = (scratch / "unpacked").iterdir()
    # The bill of materials alone tells where the sources were.
    for bill in unpacked.glob("*.dist-info/sboms/*"):
        bill.write_text(bill.read_text().replace(f"file://{ROOT}/", "file:///belljar/"))
    (scripts,) = unpacked.glob("*.data/scripts")
    shutil.copy(TARGET / TRIPLE / "dist/belljar-routed", scripts)
    for program in scripts.iterdir():
        program.chmod(0o755)
    return unpacked


def part(program: pathlib.Path, debug: pathlib.Path) -> None:
    """Strips the program of its debug information, which is in `debug` then: debuggers look there for a file of that name, with the same build ID."""
    subprocess.run(["objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program], check=True)


def tarball(path: pathlib.Path, version: str, scripts: pathlib.Path, epoch: int) -> None:
    """Programs, manual pages, completions, schema and licences, in the folders that /usr/local has."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        binary = folder / "bin/belljar"
        shutil.copytree(scripts, binary.parent)
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


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: ./belljar --dist DIR")
    if not (ROOT / "crates/routed").is_dir():
        sys.exit("belljar: --dist takes a checkout: the source distribution has not all that goes into the files")
    if shutil.which("objcopy") is None:
        sys.exit("belljar: --dist needs objcopy: apt-get install binutils, or your system's equal")
    out = pathlib.Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if AT_PLACE not in os.environ:
        go_to_place(out)
    programs = tools()
    env = environment(programs)
    epoch = int(env["SOURCE_DATE_EPOCH"])
    with tempfile.TemporaryDirectory() as scratch:
        unpacked = build(programs, env, pathlib.Path(scratch))
        version = unpacked.name.split("-")[1]
        (scripts,) = unpacked.glob("*.data/scripts")
        debug = pathlib.Path(scratch, "debug")
        debug.mkdir()
        for program in sorted(scripts.iterdir()):
            part(program, debug / f"{program.name}.debug")
        subprocess.run([programs / "wheel", "pack", "--dest-dir", out, unpacked], env=env, check=True)
        name = f"belljar-{version}-linux-x86_64"
        tarball(out / f"{name}.tar.gz", version, scripts, epoch)
        write_tar(out / f"{name}-debug.tar.gz", debug, f"belljar-{version}", epoch)
        if shutil.which("dpkg-deb"):
            subprocess.run([sys.executable, ROOT / "packaging/debian.py", out / f"{name}.tar.gz", out], env=env, check=True)
    subprocess.run([programs / "maturin", "sdist", "--out", out], cwd=ROOT, env=env, check=True)
    print(*sorted(str(path) for path in out.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
