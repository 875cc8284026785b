"""Shared set-up: one thread per test process, so that two workers share two cores."""

import os

os.environ.setdefault('OMP_NUM_THREADS', '1')

import ttl_mm.registry  # noqa: F401  guards torchvision before a test imports it
