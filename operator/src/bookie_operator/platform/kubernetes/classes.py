"""The access mode of a claim: ReadWriteOncePod if the driver of its storage class supports it.

ReadWriteOncePod prevents that a second pod on the same node uses a volume; ReadWriteOnce does not.
To read storage classes the operator needs cluster-wide rights, which an operator of one namespace
may lack; it then requests ReadWriteOnce, and only the bookie's own lock protects its folders.
"""

from typing import Final

from bookie_operator.errors import ForbiddenError
from bookie_operator.platform.kubernetes.api import CSI_DRIVER, STORAGE_CLASS, Api, Object

ONCE: Final = "ReadWriteOnce"
ONCE_POD: Final = "ReadWriteOncePod"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
WITHOUT_CSI: Final = frozenset({"rancher.io/local-path"})
"""Provisioners that take ReadWriteOncePod though they are no CSI drivers."""


async def access_mode(api: Api, storage_class: str) -> str:
    """The strictest mode for a claim of this class; empty = the default class.

    A claim keeps its mode for life: UnavailableError while nobody knows which one it can have.
    """
    try:
        provisioner = await _provisioner(api, storage_class)
        if provisioner in WITHOUT_CSI:
            return ONCE_POD
        if not provisioner or "/" in provisioner:  # no CSI driver has such a name
            return ONCE
        return ONCE_POD if await api.get(CSI_DRIVER, provisioner) is not None else ONCE
    except ForbiddenError:
        return ONCE


async def _provisioner(api: Api, storage_class: str) -> str:
    if storage_class:
        found = await api.get(STORAGE_CLASS, storage_class)
    else:
        classes = await api.list(STORAGE_CLASS)
        found = next((one for one in classes if _is_default(one)), None)
    return str(found.get("provisioner", "")) if found else ""


def _is_default(storage_class: Object) -> bool:
    notes = storage_class["metadata"].get("annotations") or {}
    return notes.get(DEFAULT_CLASS) == "true"
