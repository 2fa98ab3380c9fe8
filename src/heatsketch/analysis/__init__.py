"""What can be measured of a kernel or a fitted embedding: distances, distortion, scales, neighbourhoods, diagnosis.

Results are dataclasses with a text, a table for notebooks and often `.plot()`. The package uses `kernel`, `optimize`
and what lies below; the estimators offer it as methods.
"""
