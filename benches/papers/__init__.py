"""The experiments of the five papers that Belljar follows: `belljar reproduce`. `command` lists and runs them, `claims` has their form, and the
other modules have one paper each. Where a benchmark of the folder above measures a figure, the experiment uses it."""
