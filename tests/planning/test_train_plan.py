import pytest

from tests.helpers.plans import CPU, GPUS, PHOTOS, TRIAL, drafted
from ttl_mm.datasets.bands import Bands, Measured
from ttl_mm.datasets.decode import BadImageError
from ttl_mm.errors import UserError
from ttl_mm.planning.image_sources import Sample
from ttl_mm.planning.request import Request
from ttl_mm.planning.train_length import settle
from ttl_mm.planning.train_plan import edge_in_memory


def test_defaults_follow_the_machine_and_the_images():
    for machine, expected in ((CPU, ('resnet18', 96, 1, 3)), (GPUS, ('resnet50', 224, 2, 8))):
        plan = drafted(machine=machine)
        assert (plan.backbone, plan.size, plan.ranks, plan.workers) == expected
    assert drafted(sample=Sample(9, [], 70)).size == 64
    asked = drafted(Request(('photos',), 'resnet34', 128, gpus=1), machine=GPUS)
    assert (asked.backbone, asked.size, asked.ranks) == ('resnet34', 128, 1)


def test_a_network_of_a_library_keeps_its_own_size_on_a_gpu():
    asked = Request(('photos',), 'timm/test_vit')  # made for 160 pixels
    plan = drafted(asked, machine=GPUS)
    assert (plan.size, plan.why['size']) == (160, 'that of the network in its library')
    assert drafted(asked, machine=CPU).size == 96
    assert drafted(asked, sample=Sample(9, [], 70), machine=GPUS).size == 64


def test_the_batch_is_the_recipes_unless_images_or_memory_are_few():
    sizes = {(1000, 500): 104, (60, 500): 60, (1000, 64): 64}
    for (images, largest), batch in sizes.items():
        assert drafted(images=images, largest=largest).batch == batch
    with pytest.raises(UserError, match='the memory holds a batch of 8 images'):
        drafted(largest=8)
    with pytest.raises(
        UserError, match='30 images on 2 processes: the smallest batch of a process is 16'
    ):
        drafted(images=30, machine=GPUS)
    with pytest.raises(UserError, match='--gpus 3: torch finds 2'):
        drafted(Request(('photos',), gpus=3), machine=GPUS)


def test_unreadable_images_raise_the_limit_and_are_named():
    plan = drafted(sample=Sample(100, [BadImageError('a.jpg', 'cut')] * 3, 480))
    assert plan.max_bad_share == pytest.approx(0.06)
    assert '3 of 100 images that were tried cannot be read, such as a.jpg: cut' in plan.cautions[0]
    assert drafted().max_bad_share == 0.01


def test_checkpoints_are_ten_minutes_apart_and_at_ends_of_epochs():
    plan = settle(drafted(), TRIAL, Request(('photos',), epochs=200))
    assert plan.save_every == 33 * 9  # 300 steps are ten minutes
    assert settle(drafted(images=100_000), TRIAL, Request(('photos',))).save_every == 961
    assert plan.disk == 300


def test_images_stay_in_memory_where_they_take_a_fifth_of_it():
    per_image = 3 * 96**2 + 8  # at 1.5 times 64 px
    for ranks, most in ((1, 10_000), (4, 2_500)):
        memory = 5 * 10_000 * per_image
        assert edge_in_memory(most, 64, 480, ranks, memory) == 96
        assert edge_in_memory(most + 1, 64, 480, ranks, memory) is None
    asked = Request(('photos',), size=64)
    assert drafted(asked).edge == 96
    assert drafted(asked, sample=Sample(9, [], 70)).edge == 70  # not enlarged
    assert drafted(Request(('photos',), size=128)).edge is None
    assert drafted(Request(('photos',), size=32), sample=Sample(9, [], 20)).edge == 32
    scan = Measured(9, 'uint16', Bands((0.0,), (1.0,)), (0.0,), (1.0,), ())
    assert drafted(asked, sample=PHOTOS._replace(measured=scan)).edge is None
