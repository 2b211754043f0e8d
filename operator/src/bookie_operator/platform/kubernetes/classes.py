"""Which access mode a claim may ask for: ReadWriteOncePod wherever its class's driver can.

ReadWriteOncePod keeps a second pod off a volume also on the same node, where ReadWriteOnce lets it
on. Reading classes needs cluster-wide rights that an operator of one namespace may lack; it then
asks for ReadWriteOnce, and the bookie's own lock on its folders is what is left.
"""

from typing import Final

from bookie.errors import BookieError

from bookie_operator.platform.kubernetes.api import CSI_DRIVER, STORAGE_CLASS, Api, Object

ONCE: Final = "ReadWriteOnce"
ONCE_POD: Final = "ReadWriteOncePod"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
WITHOUT_CSI: Final = frozenset({"rancher.io/local-path"})
"""Provisioners that take ReadWriteOncePod though they are no CSI drivers."""


async def access_mode(api: Api, storage_class: str) -> str:
    """The strictest mode for a claim of this class; empty = the default class."""
    try:
        provisioner = await _provisioner(api, storage_class)
        if provisioner in WITHOUT_CSI:
            return ONCE_POD
        has_driver = provisioner and await api.get(CSI_DRIVER, provisioner) is not None
    except BookieError:
        return ONCE
    return ONCE_POD if has_driver else ONCE


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
