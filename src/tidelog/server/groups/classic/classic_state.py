"""The states of a classic group, and from which of them each is reached. Pure.

====================  ==========================================  =============================================
state                 means                                       is left for
====================  ==========================================  =============================================
Empty                 no members; offsets may be left             PreparingRebalance, when the first one joins
PreparingRebalance    waits for its members to join               CompletingRebalance, when all have or the time
                                                                  is over; Empty, when nobody is left
CompletingRebalance   waits for the leader's assignment           Stable, when it is written;
                                                                  PreparingRebalance, when somebody comes or goes
Stable                all have, or can ask for, their assignment  PreparingRebalance, when somebody comes or goes
Dead                  another broker's now, or deleted            never
====================  ==========================================  =============================================

Source: Kafka's ``ClassicGroupState``.
"""

from __future__ import annotations

import enum
from typing import Final


class ClassicState(enum.StrEnum):
    """The value is the name clients see."""

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
