"""What acts during training: hooks, optimizer, checkpoints, guards."""
