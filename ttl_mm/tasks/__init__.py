"""Applications of pre-trained weights and other methods, one self-contained slice each.

A slice holds its data, metrics, hooks and checks. ``parts.py`` registers them; configs list that
module in ``custom_imports``. ``command.py`` and ``*_command.py``, if there are any, are subcommands
of ``ttl``. No module outside of a slice imports it, so its folder can be removed.
"""
