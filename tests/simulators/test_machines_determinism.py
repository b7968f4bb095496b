"""Whole machines give the same bytes with the same seed, and others with another."""

import shutil

import pytest
import yaml
from conftest import Results, contents_of, execute
from test_machines import kernel, said, talk  # noqa: F401

pytestmark = pytest.mark.needs("qemu-system-x86_64", "busybox")


@pytest.fixture(scope="module")
def first(kernel, belljar, tmp_path_factory):
    """A run with which others are compared."""
    folder = tmp_path_factory.mktemp("machine")
    (folder / "exp.yaml").write_text(yaml.safe_dump(talk(), sort_keys=False))
    done = Results(execute([belljar, "run", folder / "exp.yaml", "-o", folder / "data"]), folder / "data")
    assert done.status == 0 and said(done, "server") == ["hello\n"], done
    yield done
    shutil.rmtree(folder)


@pytest.mark.parametrize("args", [
    pytest.param([], id="again"),
    pytest.param(["--parallelism", "1"], id="one worker"),
    pytest.param(["--parallelism", "2"], id="two workers"),
    pytest.param(["--placement", "far"], id="far"),
    pytest.param(["--parallelism", "1", "--placement", "far"], id="one worker, far"),
])
@pytest.mark.slow  # test_a_machine_behind_each_kind_of_controller compares a run with one on one worker and far
def test_the_same_bytes_every_time(run_experiment, first, args):
    """Console, output, captures: again, on other numbers of workers, and with the processes far."""
    assert contents_of(run_experiment(talk(), args=args).path / "hosts") == contents_of(first.path / "hosts")


@pytest.mark.slow
def test_another_seed_gives_another_machine(run_experiment, first):
    assert said(run_experiment(talk(), seed=2), "m1")[2] != said(first, "m1")[2]
