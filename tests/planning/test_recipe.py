import pytest

from tests.helpers.paths import ROOT
from ttl_mm.errors import UserError
from ttl_mm.files.recipes import recipes_root
from ttl_mm.planning import PAPER, default_recipe, read_recipe
from ttl_mm.planning.train_config import RECIPE


def test_the_main_recipe_is_the_papers_and_other_methods_are_refused():
    assert read_recipe(default_recipe()) == PAPER
    with pytest.raises(UserError, match='not a truncated-triplet recipe by epochs'):
        read_recipe(ROOT / 'configs/baselines/simclr_r50_in1k_8xb32_200e.py')
    with pytest.raises(UserError, match='`ttl train IMAGES --config-out FILE`'):
        read_recipe(recipes_root() / 'configs' / RECIPE)
