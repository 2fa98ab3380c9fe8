"""Linear algebra of operators: products, powers, eigenpairs, random test matrices, and distances between points."""
