import pytest

from ttl_mm.report.paper import linear_figure, omega_figure, paper_tables, published


def test_every_printed_cell_ships_as_printed():
    assert len(paper_tables()) == 111
    assert [cell.value for cell in published('TX_text')] == [3.03e-94, 6.53e-121]
    (cell,) = published('T8_rank_k', variant='k=52')
    assert cell[1:] == ('truncated triplet', 'k=52', 'top1', 30.0, 20, True)


def test_published_figures_are_the_papers_and_their_points_hollow():
    (axes,) = linear_figure().axes
    ours = next(drawn for drawn in axes.lines if drawn.get_label() == 'truncated triplet')
    cells = published('T2_imagenet_linear', ours=True)
    assert sorted(ours.get_ydata()) == sorted(cell.value for cell in cells)
    assert ours.get_markerfacecolor() == 'white'
    heights = [bar.get_height() for bar in omega_figure().axes[0].patches]
    assert heights == pytest.approx([0.1538, 0.9656, 0.1167, 0.2105, 0.122, 0.011])  # table 6
