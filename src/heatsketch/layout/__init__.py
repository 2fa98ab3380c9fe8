"""Layout: how `HeatSketch` finds its embedding Y, and places new points in it."""
