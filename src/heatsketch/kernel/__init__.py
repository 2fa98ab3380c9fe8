"""From data X to the heat kernel A.

- `options` and `graphs` check what users pass;
- `plan` decides how the kernel is stored and where it is computed;
- `affinity` is the Gaussian kernel matrix K (every pair, neighbours, or pairs above a cutoff) with a scale by
  `bandwidth`; `precomputed` is a matrix or graph that users pass;
- `normalize` finds s, and `operator` composes ``A = diag(s) K diag(s)`` and its rows at new points;
- `build` calls these in order.
"""
