"""HeatSketch against the paper's methods and others: ``python -m benchmarks.study``."""
