"""Secrets that the spec names: whether they can be used, and who waits until they can. Pure.

They are people's: the operator reads them, and writes none. Bookies that run go on with what they
read last, and none is started or given other settings with one that it could not read.
"""

from typing import Final

from bookie.ids import BookieId

from bookie_operator.observed import NamedSecret
from bookie_operator.plan.actions import Refusal
from bookie_operator.plan.passes import Pass

MISSING: Final = "SecretMissing"
KEY_MISSING: Final = "SecretKeyMissing"
UNUSABLE: Final = "SecretUnusable"
UNSEEN: Final = "SecretsUnseen"
"""The operator may not look: it is no reason to wait, since bookies read for themselves."""
LOGIN_FIELD: Final = "metadata.credentialsSecret"
"""The field that names the Secret with the fleet's ZooKeeper user."""


def wrong_secrets(pass_: Pass) -> tuple[NamedSecret, ...]:
    """Secrets that are known not to work."""
    return tuple(one for one in pass_.observed.secrets if one.reason not in ("", UNSEEN))


def lacks_secret(pass_: Pass, bookie_id: BookieId, action: str) -> Refusal | None:
    """Why a bookie is not started with what the spec says now."""
    for one in wrong_secrets(pass_):
        return Refusal(action, one.reason, f"{one.field}: {one.message}", bookie=bookie_id)
    return None


def lacks_login(pass_: Pass) -> NamedSecret | None:
    """What keeps the operator from logging in to ZooKeeper as the fleet's user; None: nothing.

    What it created there without a login, everybody could change from then on.
    """
    secrets = pass_.observed.secrets
    return next((one for one in secrets if one.field == LOGIN_FIELD and one.reason), None)
