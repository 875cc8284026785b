from collections import OrderedDict

import numpy as np
import pytest
import torch

from ttl_mm.checkpoint.plain_types import keep_plain_types, to_plain_types


def test_everything_plain_is_kept_and_anything_else_refused_or_left_out(tmp_path):
    value = {
        'numpy': np.float64(1.5), 'array': np.arange(3), 'bool': np.bool_(True),
        'nested': [(1, {2})], 'ordered': OrderedDict(a=torch.ones(2)), 'none': None,
        'text': np.str_('x'),
    }  # fmt: skip
    torch.save(to_plain_types(value), tmp_path / 'x.pth')
    read = torch.load(tmp_path / 'x.pth', weights_only=True)
    assert read.pop('array').tolist() == [0, 1, 2]
    assert read.pop('ordered')['a'].tolist() == [1, 1]
    assert read == {'numpy': 1.5, 'bool': True, 'nested': [(1, [2])], 'none': None, 'text': 'x'}
    with pytest.raises(TypeError, match='object'):
        to_plain_types({'a': [object()]})
    assert keep_plain_types({'a': 1, 'b': object()}) == {'a': 1}
