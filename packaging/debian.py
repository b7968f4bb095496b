#!/usr/bin/env python3
"""Makes a Debian package of the tarball of `./belljar --dist DIR`: packaging/debian.py TARBALL DIR. `--dist` does so itself where dpkg-deb is.

The tarball has the folders of /usr/local; the package has them below /usr, as Debian's policy asks. The same tarball gives the same bytes."""

from __future__ import annotations

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

#: Symbols of the C library that the programs are linked against.
GLIBC = "2.28"
CONTROL = """Package: belljar
Version: {version}
Architecture: amd64
Maintainer: Belljar
Installed-Size: {kilobytes}
Depends: libc6 (>= {glibc})
Recommends: python3, python3-yaml
Section: net
Priority: optional
Description: network experiments with unmodified programs, in virtual time
 Belljar runs unmodified Linux programs on simulated hosts, connected by a
 simulated network, in exact virtual time: deterministic, without root.
"""


def package(tarball: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """The package of a tarball, written to the folder `out`."""
    version = re.fullmatch(r"belljar-(.+)-linux-x86_64\.tar\.gz", tarball.name)
    if version is None:
        sys.exit(f"belljar: {tarball.name} is not named belljar-VERSION-linux-x86_64.tar.gz")
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch, "package")
        with tarfile.open(tarball) as archive:
            epoch = max(entry.mtime for entry in archive.getmembers())
            archive.extractall(scratch, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        (top,) = (path for path in pathlib.Path(scratch).iterdir() if path.is_dir() and path != root)
        root.mkdir()
        top.rename(root / "usr")
        zsh = root / "usr/share/zsh/site-functions"
        if zsh.is_dir():
            # Where Debian's zsh looks.
            zsh.rename(zsh.with_name("vendor-completions"))
        for page in (root / "usr/share/man").rglob("*.1"):
            page.with_name(page.name + ".gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
            page.unlink()
        files = [path for path in root.rglob("*") if path.is_file()]
        kilobytes = sum((path.stat().st_size + 1023) // 1024 for path in files)
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN/control").write_text(CONTROL.format(version=version[1], kilobytes=kilobytes, glibc=GLIBC))
        for path in [root, *root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
            os.utime(path, (epoch, epoch))
        made = out / f"belljar_{version[1]}_amd64.deb"
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(int(epoch))}
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, made], check=True, env=environment, stdout=subprocess.DEVNULL)
    return made


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: packaging/debian.py TARBALL DIR")
    if shutil.which("dpkg-deb") is None:
        sys.exit("belljar: a Debian package needs dpkg-deb")
    print(package(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))


if __name__ == "__main__":
    main()
