"""Classification: from labeled folders and a backbone to a classifier, and its predictions."""
