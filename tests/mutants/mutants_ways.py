"""Planted bugs of rules that hold on every way and in every order: adds, copies, compaction,
collection, answers. Of those that a review chose, the ones that no test noticed then."""

from typing import Final

from mutant import Mutant, planted

BLOCKS: Final = "bookie/src/bookie/wire/stock/blocks.py"
COLLECT: Final = "bookie/src/bookie/server/collect.py"
COMPACTION: Final = "bookie/src/bookie/storage/compaction.py"
COPY: Final = "bookie/src/bookie/repair/mend/copy.py"
INDEX_ROWS: Final = "bookie/src/bookie/storage/index_rows.py"
MAINTENANCE: Final = "bookie/src/bookie/storage/maintenance.py"
DIRECTORY: Final = "bookie/src/bookie/storage/directory.py"
POOL: Final = "bookie/src/bookie/client/pool.py"
LEDGER_LOG: Final = "bookie/src/bookie/storage/ledger_log.py"
READER: Final = "bookie/src/bookie/client/reader.py"
STOCK_ADDS: Final = "bookie/src/bookie/server/stock_adds.py"

WAYS: Final = (
    "tests/bookie/server/test_add_paths.py::"
    "test_whatever_way_adds_take_one_oracle_says_what_becomes_of_them"
)
LACS: Final = (
    "tests/bookie/server/test_add_paths.py::"
    "test_a_run_says_the_highest_lac_of_its_adds_wherever_that_is"
)
BITS: Final = (
    "tests/bookie/wire/test_stock_blocks.py::"
    "test_whatever_bit_of_a_frame_is_flipped_no_block_says_else_than_the_codec"
)
ORDERS: Final = (
    "tests/bookie/storage/test_maintenance_orders.py::"
    "test_in_whatever_order_maintenance_comes_every_entry_is_what_it_was"
)
RECHECKED: Final = "tests/bookie/server/test_recheck.py::"
COLLECTED: Final = "tests/bookie/server/test_collect.py::"
COPIED: Final = "tests/bookie/repair/mend/test_copy.py::"
READ: Final = "tests/bookie/client/test_client_reader.py::"
REQUESTS: Final = (
    "tests/bookie/client/test_pool.py::"
    "test_whatever_comes_of_requests_each_is_answered_once_and_its_room_given_back"
)

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "a block of adds carries the LAC of its last entry",
        stands_for=("a rule of single adds is not that of blocks",),
        file=STOCK_ADDS,
        old="EntryId(max(NO_ENTRY, int(block.lacs[rows].max())))",
        new="EntryId(max(NO_ENTRY, int(block.lacs[rows][-1])))",
        tests=(LACS,),
    ),
    planted(
        "three rows at unequal distances count as even",
        stands_for=("a rule of single adds is not that of blocks",),
        file=STOCK_ADDS,
        old="is_even = count < 3 or",
        new="is_even = count < 4 or",
        tests=(WAYS,),
    ),
    planted(
        "a block takes entries whose requests name others",
        stands_for=("a rule of single adds is not that of blocks",),
        file=BLOCKS,
        old="return is_same and np.array_equal(_varints(rows, entry), entry_ids)",
        new="return is_same",
        tests=(BITS,),
    ),
    planted(
        "a row of a split frame is read as the whole frame",
        stands_for=("rejected copies beside row splits and compaction",),
        file=DIRECTORY,
        old="if frame is not None and row.entry_count < frame.count:",
        new="if frame is not None and row.entry_count < 0:",
        tests=(ORDERS,),
    ),
    planted(
        "a compaction's copies have the right of a recovery",
        stands_for=("rejected copies beside row splits and compaction",),
        file=COMPACTION,
        old="copied = plain_copy(frame) if frame.is_recovery else frame.buffer",
        new="copied = frame.buffer",
        tests=(ORDERS,),
    ),
    planted(
        "the journal brings a rejected copy back",
        stands_for=("rejected copies beside row splits and compaction",),
        file=MAINTENANCE,
        old="            self.journal.begin_file()\n",
        new="            pass\n",
        tests=(
            RECHECKED
            + "test_a_wrong_copy_that_recovery_brought_is_not_brought_back_by_the_journal",
        ),
    ),
    planted(
        "a writer's copy keeps recovery's out of the place of a rejected one",
        stands_for=("rejected copies beside row splits and compaction",),
        file=DIRECTORY,
        old="if row.is_recovery and self.log.is_in_memory(row.position)]",
        new="if self.log.is_in_memory(row.position)]",
        tests=(RECHECKED + "test_a_writers_copy_beside_it_does_not_keep_recoverys_copy_out",),
    ),
    planted(
        "a rejection is of what was seen and not of what is there",
        stands_for=("rejected copies beside row splits and compaction",),
        file=DIRECTORY,
        old="                found |= asked & wrong(frame)\n",
        new="                found |= asked\n",
        tests=(RECHECKED + "test_a_good_copy_that_came_meanwhile_is_not_rejected",),
    ),
    planted(
        "a replay leaves out recovery's copy beside one that is to be dropped",
        stands_for=("rejected copies beside row splits and compaction",),
        file=DIRECTORY,
        old="        return bool(wanted - holding(judged))\n",
        new="        return bool(wanted - entries_of(r for r in judged if not r.is_rejected))\n",
        tests=(ORDERS,),
    ),
    planted(
        "a writer's copy counts in the place of a rejected one",
        stands_for=("rejected copies beside row splits and compaction",),
        file=INDEX_ROWS,
        old="    return entries_of(good) - (entries_of(rejected) - renewed)\n",
        new="    return entries_of(good)\n",
        tests=(
            RECHECKED + "test_a_writers_copy_of_it_is_not_held_before_the_checkpoint_that_drops_it",
        ),
    ),
    planted(
        "a log file goes before the one that is left is on the disk",
        stands_for=("a compaction beside a crash",),
        file=LEDGER_LOG,
        old="        if self.stream.synced_at <= (self._last_id(), HEADER_BYTES):\n",
        new="        if False:\n",
        tests=(
            "tests/bookie/storage/test_compaction.py::"
            "test_the_file_that_is_left_is_on_the_disk_before_all_others_go",
        ),
    ),
    planted(
        "what no listing shows goes without a read of its own",
        stands_for=("collection beside a store that lies",),
        file=COLLECT,
        old="return [ledger_id for ledger_id in ledger_ids if ledger_id not in found]",
        new="return list(ledger_ids)",
        tests=(COLLECTED + "test_what_no_listing_shows_is_read_by_itself_before_it_goes",),
    ),
    planted(
        "a made copy says its highest id as LAC",
        stands_for=("a rule of passed-on frames is not that of made ones",),
        file=COPY,
        old="lac = max(parse_header(body).lac for body in bodies)",
        new="lac = entry_ids[-1]",
        tests=(COPIED + "test_no_copy_says_a_lac_beyond_what_its_own_entries_carry",),
    ),
    planted(
        "a source whose answers bring nothing is asked for ever",
        stands_for=("a source that stands still",),
        file=COPY,
        old="if reply is None or reply.answered_through < at:",
        new="if reply is None:",
        tests=(COPIED + "test_a_peer_whose_answers_bring_nothing_is_left_for_another",),
    ),
    planted(
        "what a reader knows to be acknowledged falls",
        stands_for=("a reader forgets what was acknowledged",),
        file=READER,
        old="self._lac = max(self._lac, core.result())",
        new="self._lac = core.result()",
        tests=(READ + "test_what_was_known_to_be_acknowledged_stays_so_whatever_is_said_later",),
    ),
    planted(
        "an end one below what was acknowledged is no loss",
        stands_for=("a reader forgets what was acknowledged",),
        file=READER,
        old="if self.is_closed and self.metadata.last_entry_id < self._lac:",
        new="if self.is_closed and self.metadata.last_entry_id < self._lac - 1:",
        tests=(READ + "test_a_closed_ledger_below_what_was_acknowledged_is_a_loss",),
    ),
    planted(
        "the room of a request that is too late is never given back",
        stands_for=("a request is answered never or twice",),
        file=POOL,
        old="            self._in_flight_bytes -= request.size\n            _fail(",
        new="            _fail(",
        tests=(REQUESTS,),
    ),
    planted(
        "a bookie that answers again is still waited for as one that fails",
        stands_for=("a request is answered never or twice",),
        file=POOL,
        old="self._backoff_s, self._has_failed = self._settings.backoff_min_s, False",
        new="self._has_failed = False",
        tests=(REQUESTS,),
    ),
)
