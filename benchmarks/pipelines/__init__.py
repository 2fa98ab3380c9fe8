"""The study of embeddings inside pipelines: few labels, unseen points and clusters, beside other methods."""
