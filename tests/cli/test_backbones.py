from ttl_mm.cli import backbones, main


def test_networks_are_listed_with_weights_and_sizes(capsys):
    assert main(['backbones', 'timm/test_vit']) == 0
    header, first, *_ = capsys.readouterr().out.splitlines()
    assert header.split() == ['network', 'weights', 'features', 'images']
    assert first.split()[:4] == ['timm/test_vit', '0.3', 'M', '64']
    assert first.endswith('16 pixels and more in steps of 16')
    assert main(['backbones', 'resnet18_c*']) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:2] == ['resnet18_cifar', '11.2']


def test_many_are_listed_by_name_and_none_gets_the_nearest(capsys):
    assert main(['backbones']) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {'timm/resnet18', 'torchvision/vit_b_16', 'resnet50'} <= set(lines)
    assert f'For at most {backbones.MOST} of them' in lines[-1]
    assert main(['backbones', 'torchvision/resnet_50']) == 2
    assert 'the nearest names are torchvision/resnet50' in capsys.readouterr().err


def test_more_of_them_are_measured_on_request(capsys, monkeypatch):
    monkeypatch.setattr(backbones, 'MOST', 1)
    assert main(['backbones', 'resnet1*_cifar']) == 0
    assert 'resnet18_cifar\nresnet101_cifar' in capsys.readouterr().out
    assert main(['backbones', 'resnet1*_cifar', '--all']) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[1] for row in rows] == ['11.2', '42.5', '58.1']


def test_a_network_that_gives_no_features_says_so(capsys):
    assert main(['backbones', 'mmpretrain/clip_vit-base-p16_zeroshot-cls_in1k']) == 0
    assert 'not usable: ' in capsys.readouterr().out
