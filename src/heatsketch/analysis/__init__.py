"""What a kernel and a fitted embedding can be asked: distances, distortion, scales, stability, diagnosis."""
