"""The one exception that reaches a user as a sentence instead of a traceback."""


class UserError(Exception):
    """Something the user can correct. The message names the value found and the remedy."""
