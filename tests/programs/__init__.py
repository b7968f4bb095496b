"""Programs that people run, as Debian packages them: a small experiment for each, near and far."""

from . import cases, daemons, ipv6, languages, measures, networks, peers, sandboxes  # noqa: F401: each adds its cases
