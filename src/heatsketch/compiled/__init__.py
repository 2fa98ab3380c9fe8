"""Loops in C: arrays in, arrays out, where NumPy would take several passes over memory. Imported on first use.

Each module describes the functions of the C files of the same name; `library` loads and calls them. A function releases
the GIL, and takes a range of rows where :mod:`heatsketch._utils.threads` can run several at once.
"""

# Length of the vectors of the compiled search; its input is padded to a multiple of this.
LANES = 16
# Modes of the compiled search: columns are candidates of the rows; rows and columns are the same points; columns are
# candidates of the rows, and rows of the columns.
TO_ROWS, SAME_POINTS, BOTH_WAYS = range(3)
# Largest absolute value of a coordinate that is stored as a signed byte.
LARGEST_BYTE = 127
