"""The states of a classic group and the states from which each is reached. Pure.

====================  ==========================================  =============================================
state                 meaning                                     next states
====================  ==========================================  =============================================
Empty                 no members; offsets may be left             PreparingRebalance, when the first one joins
PreparingRebalance    waits for its members to join               CompletingRebalance, when all joined or the
                                                                  time is over; Empty, when no member is left
CompletingRebalance   waits for the leader's assignment           Stable, when it is written;
                                                                  PreparingRebalance, when the members change
Stable                members have, or can get, their assignment  PreparingRebalance, when the members change
Dead                  owned by another broker, or deleted         none
====================  ==========================================  =============================================

Source: Kafka's ``ClassicGroupState``.
"""

from __future__ import annotations

import enum
from typing import Final


class ClassicState(enum.StrEnum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


REACHED_FROM: Final = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
    ClassicState.DEAD: frozenset(ClassicState),
}
