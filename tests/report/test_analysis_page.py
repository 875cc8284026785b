import json

import torch

from ttl_mm.gauges import analyze_features
from ttl_mm.report.analysis_page import write_analysis


def test_the_page_and_its_numbers(tmp_path):
    labels = torch.arange(5).repeat(40)
    noise = torch.randn(200, 16, generator=torch.Generator().manual_seed(0))
    features = {'perfect': torch.eye(16)[labels] + 0.01 * noise, 'noise': noise}
    analyses = {
        name: analyze_features(x, labels, batch_size=21, num_batches=5)
        for name, x in features.items()
    }
    page = write_analysis(analyses, tmp_path)
    numbers = json.loads((tmp_path / 'analysis.json').read_text())
    assert numbers['perfect']['rates'] == analyses['perfect'].rates
    assert numbers['noise']['frequencies']['ranks 2..10'].keys() == {'pr_omega_a', 'pr_omega_b'}
    assert f'{analyses["noise"].divergence:.3f}' in page.read_text()
    assert {p.name for p in tmp_path.glob('*.png')} == {'ranks.png', 'both_sides.png'}
