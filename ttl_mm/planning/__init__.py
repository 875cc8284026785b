"""Planning a run: batch, accumulation, learning rate, schedule and k for data and hardware."""

from ttl_mm.planning.config import write_config
from ttl_mm.planning.memory import MemoryUse, measure_memory, measure_recipe
from ttl_mm.planning.planner import (
    Equivalence,
    Plan,
    RankChoice,
    cautions,
    equivalences,
    make_plan,
    rank_choices,
)
from ttl_mm.planning.recipe import PAPER, Recipe, default_recipe, read_recipe, with_rate_of
from ttl_mm.planning.tried import Setting, Tried, choose, settings_to_try, try_settings

__all__ = [
    'PAPER',
    'Equivalence',
    'MemoryUse',
    'Plan',
    'RankChoice',
    'Recipe',
    'Setting',
    'Tried',
    'cautions',
    'choose',
    'default_recipe',
    'equivalences',
    'make_plan',
    'measure_memory',
    'measure_recipe',
    'rank_choices',
    'read_recipe',
    'settings_to_try',
    'try_settings',
    'with_rate_of',
    'write_config',
]
