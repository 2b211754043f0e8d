"""Conditions of a BookieCluster: what holds now, for people and programs, and since when."""

from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime

from bookie_operator.model.base import Count, LongText, Resource, ShortText


class ConditionType(StrEnum):
    READY = "Ready"
    """Every wanted bookie serves with the settings of the spec: kstatus, Helm, Flux and Argo CD
    wait for it."""
    STALLED = "Stalled"
    """Waiting does not help: a person has to act. kstatus reports the object as failed."""
    AVAILABLE = "Available"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    LIMBO_PRESENT = "LimboPresent"
    COOKIE_FIX_PENDING = "CookieFixPending"
    REPAIR_RUNNING = "RepairRunning"
    REPAIR_STALLED = "RepairStalled"
    POSSIBLE_DATA_LOSS = "PossibleDataLoss"
    DURABILITY_VERIFIED = "DurabilityVerified"
    SCALE_DOWN_BLOCKED = "ScaleDownBlocked"
    MIXED_DURABILITY = "MixedDurability"
    METADATA_ROLLED_BACK = "MetadataRolledBack"
    COLLECTION_HELD = "CollectionHeld"
    SPACE_LOW = "SpaceLow"
    CERTIFICATES_VALID = "CertificatesValid"
    """Every certificate works and will not expire soon; absent while there are no certificates."""
    TLS_IN_FORCE = "TlsInForce"
    """Every bookie uses TLS as the spec says; absent if the spec never asked for TLS."""
    SECRETS_USABLE = "SecretsUsable"
    """The Secrets that the spec names can be used; absent if it names none."""
    PAUSED = "Paused"


class Condition(Resource):
    """One metav1.Condition."""

    type: ShortText
    """Name of the condition, such as Ready or LimboPresent; docs/operating.md lists all."""
    status: Literal["True", "False", "Unknown"]
    """`True`, `False`, or `Unknown` if the operator cannot tell."""
    reason: ShortText
    """Why, in one word, for programs."""
    message: LongText = ""
    """Why, in a sentence, for people."""
    observed_generation: Count = 0
    """Generation of the spec that the condition is about."""
    last_transition_time: AwareDatetime
    """When the status of the condition last changed."""
