"""The one door through which files of strangers are read.

Everything that opens a file for reading calls :func:`ttl_mm.files.regular.open_regular`, and every
JSON text goes through :func:`ttl_mm.files.plain_json.parse_json`.
"""
