"""Write a backbone for other tools (``backbone``), and checkpoints for the zoo (``publish``)."""

from ttl_mm.export.backbone import export_backbone
from ttl_mm.export.formats import FORMATS
from ttl_mm.export.usage import usage_hint

__all__ = ['FORMATS', 'export_backbone', 'usage_hint']
