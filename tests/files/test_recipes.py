from ttl_mm.files.recipes import recipes_root


def test_recipes_of_a_checkout_and_of_an_installed_package(tmp_path):
    package = tmp_path / 'ttl_mm'
    (tmp_path / 'configs').mkdir()  # some package leaves such a folder in site-packages
    assert recipes_root(package) == package / '.mim'
    (tmp_path / 'model-index.yml').write_text('Import: []\n')
    assert recipes_root(package) == tmp_path
