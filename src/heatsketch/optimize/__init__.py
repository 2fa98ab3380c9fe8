"""How HeatSketch looks for M: features, objectives, pairs, starts, solver."""
