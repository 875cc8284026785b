from ttl_mm.report.published import paper_tables, published


def test_all_printed_cells_ship_with_the_package():
    assert len(paper_tables()) == 111


def test_cells_are_selected_by_their_columns():
    (cell,) = published('T8_rank_k', variant='k=52')
    assert (cell.method, cell.value, cell.epochs, cell.ours) == (
        'truncated triplet',
        30.0,
        20,
        True,
    )


def test_what_was_printed_stays_as_printed():
    assert [cell.value for cell in published('TX_text')] == [3.03e-94, 6.53e-121]
