"""Writes Belljar experiments, runs them and reads their results.

    from belljar import Experiment

    exp = Experiment(stop_time="10 s")
    exp.network.edge("here", "there", latency="20 ms")
    exp.host("server", at="here").run("python3", "-m", "http.server", "80", expect="running")
    exp.host("client", at="there").run("curl", "http://server/", start="1 s")
    results = exp.run("out")
    print(results.processes())

It holds no simulation logic: it writes the experiment file, calls the `belljar` command and reads the results folder.
Data frames, statistics and figures need `pip install numpy pandas scipy matplotlib networkx`.
"""

import pathlib

from . import models, plots
from .binary import BelljarError, find_binary
from .events import link_from, one_of, one_way
from .experiment import Experiment, Host, Network, Process
from .models import Model, exponential, pareto, uniform
from .results import Results
from .run import RunFailed, run
from .sweep import Point, Sweep, sweep
from .topology import Gateway, Interface, Management, P4Switch, Route, Router, Simulator, Switch, codel, drop_tail, fq_codel, gilbert_elliott, priority, red
from .until import half_width

#: Version of the package and of the program that it belongs to.
__version__ = "0.2.0"
#: JSON Schema of experiment files, for editors.
SCHEMA = pathlib.Path(__file__).with_name("experiment.schema.json")

__all__ = [
    "SCHEMA", "__version__", "BelljarError", "Experiment", "Gateway", "Host", "Interface", "Management", "Model", "Network", "P4Switch", "Point", "Process", "Results", "Route", "Router", "RunFailed", "Simulator", "Sweep",
    "Switch", "codel", "drop_tail", "exponential", "find_binary", "fq_codel", "gilbert_elliott", "half_width", "link_from", "models", "one_of", "one_way",
    "pareto", "plots", "priority", "red", "run", "sweep", "uniform",
]
