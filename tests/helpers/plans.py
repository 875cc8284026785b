"""Drafts of plans, and what a trial could have measured for them."""

from ttl_mm.planning.image_sources import Sample
from ttl_mm.planning.machine import Machine
from ttl_mm.planning.request import Request
from ttl_mm.planning.train_plan import TrainPlan, draft
from ttl_mm.planning.trial import Trial

CPU, GPUS = Machine(0, 4, 8 << 30, 8 << 30), Machine(2, 16, 24 << 30, 64 << 30)
OPEN = Request(('photos',))
PHOTOS = Sample(400, [], 480)
TRIAL = Trial(
    start_up=10, preparation=3, warm_up=1, step=2.0, steps=5, cpu=2.0, save=4, checkpoint=100,
    memory=1,
)  # fmt: skip


def drafted(request=OPEN, images=1000, sample=PHOTOS, machine=CPU, largest=500) -> TrainPlan:
    return draft(request, images, sample, machine, 104, largest)
