"""Archives in object stores and on web servers, as files of a bounded cache on this machine.

``https://host/photos/000.tar`` has a place in the cache, ``CACHE/https/host/photos/000.tar``, and
everything else of this package works with that path, whether the file is there or not. ``url``
translates, ``remote`` asks the store (through fsspec), ``cache`` fetches a file when it is read and
removes those that were not read for the longest time, ``listing`` finds the archives, and
``prefetch`` fetches them before they are needed.
"""
