"""What heatsketch does on a GPU: speed beside the chip's own limits, accuracy, and whole fits of a million points.

From the root of the repository::

    python -m benchmarks.gpu                      some minutes; results.json and index.md under docs/gpu
    python -m benchmarks.gpu --only fit_50        a section alone, put beside the others that are there
    python -m benchmarks.gpu --quick              small sizes in this process; with --device torch-cpu without a GPU
    python -m benchmarks.gpu --page               only write the page again from the results that are there

It needs nothing but what heatsketch itself needs to compute, and PyTorch with Triton. Every section runs in a process
of its own, with a limit of time, and is written to ``results.json`` when it ends; a case that fails is recorded with
its message. The page is computed from that file and nothing else.

- `bench`: what is measured, the clock, and how a case is recorded. `machine`: the chip and the versions.
- `ceilings`, `exponentials`: what the chip can do at best. `products`: K V, and its error. `plain`: others beside it.
- `fits`: estimators from points to coordinates. `sections` (what runs, in which order), `page`.
"""
