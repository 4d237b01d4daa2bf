"""What the numbers mean for a model and a data set: the audit, its page, what-if, signals, alignment and cards."""

from netgrain.audit.alignment import Align, align
from netgrain.audit.auditing import Audit, audit
from netgrain.audit.cards import Card, card
from netgrain.audit.comparing import compare
from netgrain.audit.layers import LayerProfile, layer_profile
from netgrain.audit.signals import Visibility, visible
from netgrain.audit.what_if import WhatIf, what_if

__all__ = [
    "Align",
    "Audit",
    "Card",
    "LayerProfile",
    "Visibility",
    "WhatIf",
    "align",
    "audit",
    "card",
    "compare",
    "layer_profile",
    "visible",
    "what_if",
]
