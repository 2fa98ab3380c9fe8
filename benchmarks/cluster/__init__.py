"""What heatsketch does on a cluster of Dask: speed, memory, bytes moved, workers that are killed, and a cost model.

From the root of the repository, on a machine with two cores that is otherwise idle::

    python -m benchmarks.cluster                 half an hour; results.json and index.md under docs/cluster
    python -m benchmarks.cluster --only speed    a section alone, put beside the others that are there
    python -m benchmarks.cluster --quick         small sizes, to see that it runs
    python -m benchmarks.cluster --page          only write the page again from the results that are there

The clusters are real processes of this machine (``distributed.LocalCluster``), one thread each. The page is computed
from ``results.json`` and nothing else.

- `runs`: what is measured, section by section. `watch`: memory and bytes of the workers. `model`: what a product and a
  fit cost, its constants fitted to some of the runs and checked on the others. `page`.
"""
