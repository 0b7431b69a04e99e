"""Studies over several predictions: all GPUs, batch sizes, checkpoints, ranks, and copies on one GPU."""
