"""Writes Belljar experiments, runs them and reads their results.

    from belljar import Experiment

    exp = Experiment(stop_time="10 s")
    exp.network.edge("here", "there", latency="20 ms")
    exp.host("server", at="here").run("python3", "-m", "http.server", "80", expect="running")
    exp.host("client", at="there").run("curl", "http://server/", start="1 s")
    results = exp.run("out")
    print(results.processes())

It holds no simulation logic: it writes the experiment file, calls the `belljar` command and reads the results folder.
Data frames, statistics and figures need `pip install belljar[analysis]`.
"""

from .binary import BelljarError, find_binary
from .events import one_of
from .experiment import Experiment, Host, Model, Network, Process
from .results import Results
from .run import RunFailed, run
from .sweep import Sweep, sweep
from .topology import Topology

__all__ = [
    "BelljarError", "Experiment", "Host", "Model", "Network", "Process", "Results", "RunFailed", "Sweep", "Topology",
    "find_binary", "one_of", "run", "sweep",
]
