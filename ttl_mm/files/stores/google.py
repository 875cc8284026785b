"""Google Cloud Storage through gcsfs, whose habits do not fit a long run.

gcsfs makes every request six times, prints a traceback when it gives up, waits without end for a
store that has gone silent, knows no proxy, holds 128 MB of each large file in memory, and asks of
what kind a bucket is by a service that a public bucket does not grant, with a warning each time.
Here a request is made once and has a bound, since :mod:`ttl_mm.files.stores.remote` tries again,
and buckets are of the usual kind unless ``GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT`` is ``true``, which
Rapid (zonal) ones need.
"""

import os
from functools import cache
from typing import Any

from ttl_mm.errors import UserError
from ttl_mm.files.stores.url import hide_secrets


def google_filesystem(timeout: Any) -> Any:
    """The file system for ``gs://``.

    Args:
        timeout: ``aiohttp.ClientTimeout`` of each request.

    Raises:
        UserError: The keys on this machine are damaged.
    """
    rapid = os.environ.get('GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT', '').lower() in ('true', '1')
    kind = _kind(rapid)
    try:
        return kind(
            use_listings_cache=False,
            requests_timeout=timeout,
            session_kwargs={'trust_env': True},  # HTTPS_PROXY
        )
    except Exception as error:  # of any kind, where a file of keys is none
        text = ' '.join(hide_secrets(str(error)).split())[:300]
        raise UserError(
            f'the keys for gs:// cannot be read ({type(error).__name__}: {text}): check '
            'GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`.'
        ) from None


@cache
def _kind(rapid: bool) -> Any:
    import gcsfs

    base: Any = gcsfs.GCSFileSystem if rapid else gcsfs.core.GCSFileSystem
    get_file = _once(base._get_file_request)

    class GoogleStore(base):
        _request = _once(base._request)

        async def _get_file(self, rpath: str, lpath: str, callback: Any = None, **_: Any) -> None:
            await get_file(self, rpath, lpath, callback=callback)

    return GoogleStore


def _once(method: Any) -> Any:
    """A method without the decorator that repeats it."""
    return getattr(method, '__wrapped__', method)
