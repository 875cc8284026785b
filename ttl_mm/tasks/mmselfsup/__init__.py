"""Five methods of the archived mmselfsup, such as DeepCluster and ODC, trained by our runner."""
