"""Look at images through their features: maps, duplicates, search, selection."""
