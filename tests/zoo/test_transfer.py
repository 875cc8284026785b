"""What no server on the loopback can show; the rest is in test_cache.py."""

import urllib.request

import pytest

from ttl_mm.zoo.transfer import TransferError, _SameHost


def test_redirect_from_https_to_http_is_refused():
    request = urllib.request.Request('https://host/a')
    with pytest.raises(TransferError, match='redirects from https to http'):
        _SameHost(()).redirect_request(request, None, 302, '', {}, 'http://host/a')
