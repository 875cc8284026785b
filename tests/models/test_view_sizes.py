from torch import nn

from ttl_mm.models.view_sizes import ViewSizes, find_sizes, patch_size


def test_sizes_are_found_by_trying():
    def of_patches(edge):
        return edge % 16 == 0 and edge >= 48

    assert find_sizes(of_patches, 224, patch=16, stride=1) == ViewSizes(64, 16)  # 16, 32, 64
    assert find_sizes(lambda edge: edge % 32 == 0, 224, 4, 1) == ViewSizes(32, 32)
    assert find_sizes(lambda edge: edge == 224, 224, 16, 1) == ViewSizes(224, only=224)
    assert find_sizes(lambda edge: True, 224, 1, stride=32) == ViewSizes(32)


def test_the_next_size_is_one_that_is_allowed():
    for sizes in (ViewSizes(32), ViewSizes(32, 16), ViewSizes(224, only=224)):
        for edge in (1, 31, 40, 97, 224, 1000):
            assert sizes.allows(sizes.nearest(edge))
            assert sizes.allows(sizes.largest_within(edge))
    assert ViewSizes(32, 16).largest_within(95) == 80
    assert not ViewSizes(32, 16).allows(40)
    assert [str(ViewSizes(32)), str(ViewSizes(16, 16)), str(ViewSizes(8, only=8))] == [
        '32 pixels and more', '16 pixels and more in steps of 16', '8 pixels only',
    ]  # fmt: skip


def test_a_patch_is_a_first_convolution_without_overlap():
    assert patch_size(nn.Sequential(nn.Conv2d(3, 4, 8, stride=8))) == 8
    assert patch_size(nn.Sequential(nn.Conv2d(3, 4, 3, stride=2))) == 1
    assert patch_size(nn.Flatten()) == 1
