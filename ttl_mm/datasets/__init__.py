"""Images to batches: datasets, transforms, samplers."""
