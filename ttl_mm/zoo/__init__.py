"""Published checkpoints: the manifest of what there is, and a cache of checked files."""
