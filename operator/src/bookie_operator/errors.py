"""Errors of the operator, split by what the caller does next; bookie errors stay as they are."""

from bookie.errors import BookieError, SettingsError


class ManifestError(SettingsError):
    """A manifest is wrong: each line names the field, what was found and what is expected."""


class LocalError(BookieError):
    """The local directory is not in the state the command needs; the message says what to do."""


class DirectoryInUseError(LocalError):
    """Another operator holds the directory's lock."""


class PreconditionError(BookieError):
    """What an action was planned for has changed: observe and plan again."""


class NameTakenError(BookieError):
    """An object with a name that the operator needs belongs to somebody else; it is not changed."""


class ForbiddenError(BookieError):
    """The platform refused a call because a permission is missing; the message is the
    platform's."""
