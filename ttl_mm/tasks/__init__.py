"""Applications of pre-trained weights and other methods, one self-contained slice each.

A slice holds its data, metrics, hooks and checks. ``parts.py`` registers them; configs list that
module in ``custom_imports``. ``command.py``, if there is one, is a subcommand of ``ttl``. No module
outside of a slice imports it, so its folder can be removed.
"""
