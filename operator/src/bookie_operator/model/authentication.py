"""How clients authenticate on the stock port, beside TLS; and names of Secrets that people make."""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from bookie_operator.model.base import Resource, rule

SecretName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)
]
"""Name of a Secret in the cluster's namespace. On the local platform it is a folder in
`DIR/secrets` with a file for each key."""


class Mechanism(StrEnum):
    """A way to authenticate on the stock port."""

    TLS = "tls"
    DIGEST_MD5 = "digest-md5"


class Authentication(Resource):
    """How BookKeeper's own clients must authenticate before they may send requests to the stock
    port."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule(
                    "('digest-md5' in self.mechanisms) == has(self.usersSecret)",
                    "authentication.usersSecret is needed with mechanism digest-md5, and read by "
                    "no other",
                ),
            ]
        }
    )

    mechanisms: Annotated[
        tuple[Mechanism, ...],
        Field(min_length=1, max_length=2, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ]
    """Ways to authenticate; a client needs one of them: `tls`, a client certificate, or
    `digest-md5`, a password by SASL. If `tls.mode` is Required, every client shows a certificate
    anyway; with only digest-md5 here, it must also give a password."""
    users_secret: SecretName | None = None
    """Secret with the users for digest-md5 under the key `users`: lines `NAME:bookkeeper:KEY`, as
    htdigest writes them. Changes take effect without a restart."""

    @model_validator(mode="after")
    def _users_are_somewhere(self) -> Self:
        takes_passwords = Mechanism.DIGEST_MD5 in self.mechanisms
        if takes_passwords != (self.users_secret is not None):
            found = self.users_secret or "nothing"
            expected = "the name of a Secret" if takes_passwords else "nothing"
            raise ValueError(
                f"usersSecret: found {found}, expected {expected} with mechanisms "
                f"{', '.join(self.mechanisms)}: users are of digest-md5"
            )
        return self


USERS_KEY: Final = "users"
"""In the Secret of `authentication.usersSecret`."""
LOGIN_KEY: Final = "credentials"
"""In the Secret of `metadata.credentialsSecret`."""
