"""Before any test module imports torchvision, timm or mmpretrain."""

import ttl_mm.registry  # noqa: F401  lets torchvision import beside any build of torch
