"""Published checkpoints: download, import, export."""
