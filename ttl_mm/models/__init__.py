"""Loss, head and algorithm of the truncated triplet method."""
