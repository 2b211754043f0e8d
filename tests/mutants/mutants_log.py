"""Planted bugs of the log of ledgers: what becomes of a list write that nobody heard of."""

from typing import Final

from mutant import Mutant, planted

LOG: Final = "bookie/src/bookie/client/log.py"
CHAIN: Final = "bookie/src/bookie/client/log_chain.py"
READING: Final = "bookie/src/bookie/client/log_reading.py"


def outcome(test: str, *parameters: str) -> str:
    """On the store in memory: what is planted here does not depend on which one it is."""
    return f"tests/bookie/client/test_log_outcomes.py::{test}[{'-'.join(('memory', *parameters))}]"


MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "a ledger whose compare-and-set lost is deleted without a look at the list",
        stands_for=("A3 listed ledger deleted",),
        file=CHAIN,
        old="        if writer.ledger_id in (*stored.ledgers, *stored.deleting):\n",
        new="        if writer.ledger_id in stored.deleting:\n",
        tests=(
            outcome("test_a3_an_open_that_won_unheard_leaves_its_ledger_to_who_came_behind"),
            outcome("test_a3_a_roll_that_was_told_nothing_deletes_no_listed_ledger"),
        ),
    ),
    planted(
        "an opening that cannot tell deletes what is on the list, or comes onto it",
        stands_for=("A3 listed ledger deleted",),
        file=CHAIN,
        old="            self._leave_over(writer)\n            raise\n",
        new="            await self._give_up(writer)\n            raise\n",
        tests=(outcome("test_an_open_that_cannot_tell_leaves_its_ledger_over_and_names_it"),),
    ),
    planted(
        "a truncation deletes ledgers before the list has forgotten them",
        stands_for=("A3 listed ledger deleted",),
        file=CHAIN,
        old="        await self._change(owned, lambda current: current.truncated(before))\n"
        "        gone = self._listed.current.deleting\n"
        "        await self._delete(gone)\n",
        new="        gone = self._listed.current.truncated(before).deleting\n"
        "        await self._delete(gone)\n"
        "        await self._change(owned, lambda current: current.truncated(before))\n",
        tests=(outcome("test_a_truncation_whose_outcome_is_unknown_deletes_nothing"),),
    ),
    planted(
        "an opening takes off the list what a server that lags behind does not show",
        stands_for=("A3 missing ledger ends the log",),
        file=CHAIN,
        old="        if absent:\n            await self.store.barrier()\n",
        new="",
        tests=(outcome("test_a_ledger_that_a_stale_read_does_not_show_stays_on_the_list"),),
    ),
    planted(
        "reading ends at a listed ledger that does not exist",
        stands_for=("A3 missing ledger ends the log",),
        file=READING,
        old="    except NoSuchLedgerError:\n        return None\n",
        new="    except NoSuchLedgerError:\n        raise\n",
        tests=(
            outcome("test_a3_reading_skips_a_listed_ledger_that_does_not_exist_and_says_so", "1"),
            outcome("test_a_reader_that_cannot_do_with_a_hole_stops_there"),
        ),
    ),
    planted(
        "a missing ledger stays on the list for ever",
        stands_for=("A3 missing ledger ends the log",),
        file=CHAIN,
        old="            left = current.without(missing)\n",
        new="            left = current\n",
        tests=(outcome("test_a3_opening_takes_missing_ledgers_off_the_list", "1"),),
    ),
    planted(
        "a roll that was cut off is not looked up, another ledger is begun",
        stands_for=("B6 late roll forgotten",),
        file=CHAIN,
        old="        if self._next is None or self._next.ledger_id == owned:\n"
        "            self._next = await self._create()\n",
        new="        self._next = await self._create()\n",
        tests=(
            outcome("test_b6_a_roll_that_lands_later_is_gone_on_with"),
            outcome("test_b6_a_close_finishes_the_roll_so_that_no_listed_ledger_stays_open"),
        ),
    ),
    planted(
        "a roll ends with its caller, and appends wait for its end forever",
        stands_for=("a request is answered never or twice",),
        file=LOG,
        old="await asyncio.shield(self._switch)",
        new="await self._switch",
        tests=(
            "tests/bookie/client/test_log.py::"
            "test_an_append_that_waits_for_a_cancelled_roll_is_stored",
        ),
    ),
)
