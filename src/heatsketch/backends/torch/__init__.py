"""Code for devices, in PyTorch and Triton; imported only when a device is used."""
