"""Errors of the operator, split by what the caller does next; bookie errors stay as they are."""

from bookie.errors import BookieError, SettingsError


class ManifestError(SettingsError):
    """A manifest is wrong: each line names the field, what was found and what is expected."""


class LocalError(BookieError):
    """The local directory is not in the state the command needs; the message says what to do."""


class DirectoryInUseError(LocalError):
    """Another operator holds the directory's lock."""


class PreconditionError(BookieError):
    """What an action was planned for has changed meanwhile: observe and plan again."""


class NameTakenError(BookieError):
    """An object of the name that is needed belongs to somebody else: it is left as it is."""


class ForbiddenError(BookieError):
    """The platform denied a call for want of a permission; the message is the platform's."""
