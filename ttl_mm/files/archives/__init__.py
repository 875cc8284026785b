"""Archives of images, read as if they were folders.

The file ``photos/a.jpg`` in ``shard.tar`` has the path ``shard.tar/photos/a.jpg``, and
:func:`ttl_mm.files.archives.member.read_image_file` reads it. So whatever takes a folder of images
takes archives too: tar files (also WebDataset's shards), zip files, and parquet files that hold
images as Hugging Face's datasets store them.

An archive is read once from end to end, by ``tar``, ``zip`` or ``parquet``, which yield the place
of every file in it. ``index`` keeps these places in the user's cache, so that later any image is
found by its name.
"""
