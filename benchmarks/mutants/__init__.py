"""Mutation testing: faults are put into the core of the library one at a time, and the tests must notice each.

From the root of the repository::

    python -m benchmarks.mutants                 hours; docs/trust/mutants.json
    python -m benchmarks.mutants --survivors     those again that survived the last run, beside what has changed since
    python -m benchmarks.mutants --results       only write the results again

mutmut does it, in a copy of the working tree under ``out/mutants``, as ``[tool.mutmut]`` of pyproject.toml says. What
it found is kept there: a second run tests only mutants of functions that have changed. A mutant that no test notices
is either explained, in ``explained.toml``, or said to be not.

- `run`: the copy, and mutmut at work. `fastest`: the order of the tests. `outcomes`: mutants as mutmut leaves them.
  `results`: what is written down.
"""
