"""Five systems of the archived mmselfsup, such as DeepCluster and ODC, under our runner."""
