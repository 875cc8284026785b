"""Over- and under-clustering, planning a run, reports."""
