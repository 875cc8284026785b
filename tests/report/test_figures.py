import pytest

from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.report import load_run
from ttl_mm.report.chart import draw
from ttl_mm.report.figures import curves


@pytest.mark.parametrize(('count', 'beside'), [(8, False), (31, True)])
def test_a_long_legend_stands_beside_the_curves(tmp_path, count, beside):
    runs = [load_run(write_start(tmp_path / f'run{i}', '1', 1, EPOCH)) for i in range(count)]
    figure = draw(curves(runs, 'loss', 'loss'))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    legend = figure.legends[0] if beside else axes.get_legend()
    assert len(legend.get_texts()) == count
    box = legend.get_window_extent()
    assert box.y0 >= 0
    assert (box.x0 >= axes.get_window_extent().x1) == beside
