"""Programs that people run, as Debian packages them: a small experiment for each, near and far."""
