"""Record what parts of a model put out during a training iteration."""

from collections.abc import Mapping
from functools import partial

from torch import Tensor, nn


class OutputRecorder:
    """Listens to forward passes that happen anyway; changes nothing and draws no random number."""

    def __init__(self) -> None:
        self._handles: list = []
        self._outputs: dict[str, list[Tensor]] = {}

    def start(self, model: nn.Module, parts: Mapping[str, str]) -> None:
        """Record the forward passes of these parts (name to path) from now on, if it has them."""
        modules = dict(model.named_modules(remove_duplicate=False))
        self._handles = [
            modules[path].register_forward_hook(partial(self._record_output, name))
            for name, path in parts.items()
            if path in modules
        ]

    @property
    def recording(self) -> bool:
        """Whether outputs are kept at the moment."""
        return bool(self._handles)

    def _record_output(self, name: str, module, inputs, output) -> None:
        last = output[-1] if isinstance(output, (tuple, list)) else output
        if isinstance(last, Tensor):
            self._outputs.setdefault(name, []).append(last.detach())

    def stop(self) -> dict[str, list[Tensor]]:
        """The outputs of every part, in the order of its forward passes."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        outputs, self._outputs = self._outputs, {}
        return outputs
