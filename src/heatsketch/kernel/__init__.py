"""From data to the heat kernel: options, bandwidths, affinities, normalisations, and rows of new points."""
