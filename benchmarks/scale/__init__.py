"""How heatsketch does at scale, side by side with its peers and with the machine's limits.

From the root of the repository::

    python -m benchmarks.scale --quick            some minutes; what `make bench` runs
    python -m benchmarks.scale --full             up to a million points, every peer; hours
    python -m benchmarks.scale --page             only write the page again from the results that are there

Every measurement runs in a fresh process and is appended to ``results.jsonl`` as soon as it is finished, so that an
interrupted run goes on where it stopped. The page ``index.md`` is computed from that file and nothing else.

- `data`: the data sets. `machine`: the limits of the machine, and what a results file must agree with.
- `methods`, `peers`: end-to-end embeddings. `accuracy`: their distances against exact diffusion distances.
- `products`, `neighbours`: the two inner loops, by themselves.
- `worker` (the fresh process), `launch` (its parent, with time and memory limits), `plan` (what runs, in which order).
- `results` (the file), `verdicts` (the targets), `tables` and `page`.
"""
