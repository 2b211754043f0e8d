"""`local env`: variables that a shell exports so that `bookie` reaches the directory's cluster."""

import shlex

from bookie.metadata.opening import LOGIN_VARIABLE
from bookie.user import user_name

from bookie_operator.errors import LocalError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.tls import TlsMode
from bookie_operator.platform.credential_folders import person_folder
from bookie_operator.platform.folders import LocalFolders
from bookie_operator.platform.local_credentials import client_environment
from bookie_operator.platform.named_secrets import login_secret


def metadata_url(folders: LocalFolders, cluster: BookieCluster) -> str:
    """LocalError while the store has no address yet."""
    if not cluster.status.metadata.url:
        raise LocalError(
            f"found no address of a metadata store in {folders.status_file}, expected a cluster "
            f"that is up: {folders.command('wait')} waits for it"
        )
    return cluster.status.metadata.url


def exports(folders: LocalFolders, cluster: BookieCluster) -> str:
    """Lines for `eval`: the metadata store, with TLS this person's credentials, and the fleet's
    ZooKeeper user if it has one.

    LocalError while the store has no address yet, and when TLS is in force but this person has no
    credentials.
    """
    variables = {"BOOKIE_METADATA": metadata_url(folders, cluster)}
    clients = TlsMode(cluster.status.tls.clients) if cluster.status.tls else TlsMode.OFF
    if clients is not TlsMode.OFF:
        folder = person_folder(folders.tls, user_name())
        if not folder.is_dir():
            raise LocalError(
                f"found no folder {folder}, expected credentials for {user_name()}: the operator "
                f"makes them for who runs it; start it with {folders.command('up')}"
            )
        variables |= client_environment(str(folder), clients)
    login = login_secret(cluster.spec)
    if login is not None:
        variables[LOGIN_VARIABLE] = str(folders.secret(login.name) / login.key)
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
