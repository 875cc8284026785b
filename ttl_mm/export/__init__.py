"""Write a backbone for other tools (``backbone``, ``hub``) or for the zoo (``publish``)."""

from ttl_mm.export.backbone import export_backbone
from ttl_mm.export.formats import FORMATS
from ttl_mm.export.hub import export_to_hub
from ttl_mm.export.usage import import_remark, usage_hint

__all__ = ['FORMATS', 'export_backbone', 'export_to_hub', 'import_remark', 'usage_hint']
