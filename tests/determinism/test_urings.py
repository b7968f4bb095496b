"""Completions of io_uring come in one order, whatever the workers and the placement do."""

import pytest
import yaml
from conftest import execute, experiment
from test_guests import GUESTS, build


@pytest.fixture(params=["urings", "uringflow", "uringtask"])
def program(request):
    return build(GUESTS / f"{request.param}.c", "dynamic")


# The names of the folders are of one length, which programs see.
def logs(belljar, workdir, program, name, *args):
    hosts = {f"host{n}": (0, [{"path": str(program)}]) for n in range(3)}
    (workdir / "urings.yaml").write_text(yaml.safe_dump(experiment(hosts)))
    data = workdir / name
    done = execute([belljar, "run", workdir / "urings.yaml", "-o", data, "--no-progress", "--strace", *args])
    assert done.status == 0, done
    return {f.relative_to(data): f.read_bytes() for f in sorted(data.glob(f"hosts/*/{program.name}.*"))}


def test_same_order(belljar, workdir, program):
    one = logs(belljar, workdir, program, "one", "--parallelism", "1")
    assert any(b"io_uring_enter" in log for log in one.values())
    assert logs(belljar, workdir, program, "tri", "--parallelism", "3") == one
    assert logs(belljar, workdir, program, "far", "--placement", "far") == one
