"""The study of what is chosen automatically: bandwidth, diffusion time, and the intervals of distances."""
