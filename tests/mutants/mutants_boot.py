"""Planted bugs of how a bookie stops and boots: markers, verdicts, the fence, limbo, the cookie."""

from typing import Final

from mutant import Mutant, Patch, planted

BOOT: Final = "bookie/src/bookie/boot/boot.py"
CLEAR: Final = "bookie/src/bookie/protocol/clearing.py"
DISK: Final = "bookie/src/bookie/storage/disk.py"
LEDGERS: Final = "bookie/src/bookie/storage/ledger_table.py"
LIFECYCLE: Final = "bookie/src/bookie/server/lifecycle.py"
LISTING: Final = "bookie/src/bookie/metadata/naming.py"
MARKING: Final = "bookie/src/bookie/boot/boundary_marks.py"
MARKS: Final = "bookie/src/bookie/server/marks.py"
OPENING: Final = "bookie/src/bookie/storage/opening.py"
SESSION: Final = "bookie/src/bookie/metadata/session.py"
VERDICTS: Final = "bookie/src/bookie/boot/verdicts.py"

MARKED: Final = "tests/scenarios/test_boot_and_marks.py::"
SERVED: Final = "tests/scenarios/test_boot_served.py::"
BOOTS: Final = "tests/bookie/boot/test_boot.py::"
DISKS: Final = "tests/bookie/boot/test_boot_disks.py::"
LIVES: Final = "tests/bookie/server/test_lifecycle.py::"
FILES: Final = "tests/bookie/boot/test_identity_files.py::"
CLEARING: Final = "tests/bookie/protocol/test_clearing.py::"

FENCES_LOST: Final = SERVED + "test_s1_where_fences_may_be_lost_its_old_writer_is_refused_for_ever"
DIES_AT_BOOT: Final = (
    BOOTS + "test_s26_a_boot_that_dies_leaves_the_older_markers_and_the_next_marks_all"
)

BOUNDARY: Final = "boundary = Boundary(epoch, existing.limit, extra, recovering)"

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "an unclean boot fences nothing",
        stands_for=("no boot fence", "S1 no boot fence"),
        file=LEDGERS,
        old="            self.fence = union([self.fence, boundary])\n",
        new="            pass\n",
        model="no-boundary-disks-lost",
        tests=(FENCES_LOST,),
    ),
    planted(
        "an unclean boot fences the ledgers that are not closed",
        stands_for=(
            "fence non-closed only",
            "fence only open ledgers",
            "S24 non-closed only rule",
        ),
        file=MARKING,
        old=BOUNDARY,
        new="boundary = Boundary(epoch, LedgerId(-1), frozenset(existing.listing.undecided))",
        model="fence-open-only",
        tests=(
            "tests/bookie/boot/test_boot_notes.py::"
            "test_where_more_happened_than_a_stop_every_ledger_is_in_doubt",
        ),
    ),
    planted(
        "an unclean boot fences the ledgers that name this bookie",
        stands_for=("S46 boot fencing driven by membership",),
        file=MARKING,
        old=BOUNDARY,
        new="boundary = Boundary(epoch, LedgerId(-1), frozenset(existing.listing.named))",
        tests=(MARKED + "test_s46_a_ledger_that_names_this_bookie_nowhere_refuses_its_old_writer",),
    ),
    planted(
        "an unclean boot fences the ledgers that are listed, not the deleted ones",
        stands_for=("S40 fence lost with the ledger",),
        file=MARKING,
        old="    limit = await store.new_ledger_id()\n",
        new="    limit = LedgerId(-1)\n",
        model="boundary-without-deleted",
        tests=(MARKED + "test_s40_also_when_the_disk_with_the_tombstone_is_gone",),
    ),
    planted(
        "a collected ledger leaves no tombstone",
        stands_for=("S40 fence lost with the ledger",),
        file=LEDGERS,
        old="        return self.merge(replace(record, limbo=False, deleted=True))",
        new="        self.records.pop(ledger_id, None)\n        return LedgerRecord(ledger_id)",
        model="no-tombstone",
        tests=(
            "tests/bookie/server/test_requests.py::"
            "test_s40_a_collected_ledger_takes_nothing_any_more",
        ),
    ),
    planted(
        "an unclean boot puts no ledger in limbo",
        stands_for=("no limbo", "S2 no limbo"),
        file=MARKING,
        old="storage.maintenance.mark(boundary, limbo, fences_lost=True)",
        new="storage.maintenance.mark(boundary, (), fences_lost=True)\n"
        "    storage.maintenance.finish_unchecked(epoch)",
        model="no-limbo",
        tests=(MARKED + "test_s2_s42_what_is_not_there_is_unknown_in_limbo_and_unchecked",),
    ),
    planted(
        "limbo is over when the next boot was clean",
        stands_for=("limbo cleared at boot",),
        file=OPENING,
        old="                ledgers.merge(record)\n",
        new="                ledgers.merge(dataclasses.replace(record, limbo=False))\n",
        also=(
            Patch(OPENING, "from collections.abc", "import dataclasses\nfrom collections.abc"),
            Patch(
                OPENING,
                "ledgers.unchecked = union(directory.facts.unchecked",
                "ledgers.unchecked = union(None",
            ),
        ),
        model="limbo-cleared-at-boot",
        tests=(BOOTS + "test_s30_limbo_stays_over_clean_and_unclean_restarts",),
    ),
    planted(
        "limbo may be cleared once the ledger is in recovery",
        stands_for=("limbo cleared at IN_RECOVERY",),
        file=CLEAR,
        old="if is_undecided and not metadata.is_closed:",
        new='if in_limbo and metadata.state.value == "OPEN":',
        model="limbo-cleared-in-recovery",
        tests=(CLEARING + "test_limbo_stays_while_a_recoverer_may_have_chosen_the_bookie_again",),
    ),
    planted(
        "an unchecked mark may go while a recoverer may have chosen the bookie",
        stands_for=("S37 one-time metadata cache",),
        file=CLEAR,
        old="is_undecided = is_awaited or (was_recovering and is_recovering)",
        new="is_undecided = is_awaited",
        model="unchecked-cleared-in-recovery",
        tests=(
            MARKED
            + "test_s37_a_bookie_that_returns_as_a_replacement_is_not_checked_before_the_close",
        ),
    ),
    planted(
        "limbo is cleared for whoever asks after an attempt",
        stands_for=("S30 clear on attempt",),
        file=CLEAR,
        old="    if is_undecided and not metadata.is_closed:",
        new="    if in_limbo:\n        return ClearVerdict(ClearReason.CLEARED)\n"
        '    if not metadata.is_closed and metadata.state.value not in ("OPEN", "IN_RECOVERY"):',
        tests=(MARKED + "test_s30_limbo_ends_with_the_close_and_the_copies_not_before",),
    ),
    planted(
        "a loss is taken back and what was denied on its word is denied still",
        stands_for=("S31 flag cleared before sync",),  # the same harm: a denial without a copy
        file=CLEAR,
        old="    return Retraction(into_limbo=True)",
        new="    return Retraction()",
        tests=(
            "tests/bookie/protocol/test_clearing.py::"
            "test_unknown_is_never_negative_after_a_record_was_taken_back",
        ),
    ),
    planted(
        "the mark of a loss taken back is cleared by a judgement that was made before it",
        stands_for=("S31 flag cleared before sync",),  # the same harm
        file=MARKS,
        old="            await asyncio.gather(*(self._clear(records[i]) for i in going))",
        new="            await asyncio.gather(*(self._clear(self._record(i)) for i in going))",
        tests=(
            "tests/bookie/server/test_marks.py::"
            "test_a_mark_that_is_cleared_while_its_record_is_taken_back_stays",
        ),
    ),
    planted(
        "limbo is cleared before the copies are synced",
        stands_for=("limbo cleared before copies are synced", "S31 flag cleared before sync"),
        file=MARKS,
        old="await asyncio.to_thread(self._maintenance.checkpoint)\n            passing(",
        new="passing(",
        model="cleared-before-copies-are-synced",
        tests=(MARKED + "test_s31_cleared_means_that_the_copies_survive_the_next_crash",),
    ),
    planted(
        "the check ends without another look at the metadata",
        stands_for=("S37 one-time metadata cache",),
        file=MARKS,
        old="        late = {i for i in listing.named if self.storage.is_unchecked(i)}",
        new="        late: set[LedgerId] = set()",
        tests=(
            MARKED + "test_s37_a_ledger_that_names_this_bookie_only_at_its_close"
            "_is_found_by_the_last_look",
        ),
    ),
    planted(
        "the check ends while a recoverer may still bring this bookie in",
        stands_for=("S37 one-time metadata cache",),
        file=MARKS,
        old="if late or any(boundary.covers(ledger_id) for ledger_id in pending):",
        new="if late:",
        tests=(
            "tests/bookie/server/test_marks.py::"
            "test_s37_while_a_ledger_is_being_recovered_the_boundary_stays",
        ),
    ),
    planted(
        "a check waits for recoveries that wait for it",
        stands_for=("AQ positives required",),  # the same harm: a ledger that nobody can close
        file=MARKS,
        old="        return boundary is not None and ledger_id in boundary.recovering",
        new="        return True",
        model="unchecked-waits-for-every-recovery",
        tests=(
            "tests/bookie/server/test_marks.py::"
            "test_a_recovery_may_wait_for_a_bookie_whose_check_does_not_wait_for_its_end",
        ),
    ),
    planted(
        "the bookie serves while its marks are still being set",
        stands_for=("pre-boot not awaited", "S25 pre-boot not awaited"),
        file=BOOT,
        old="            existing = await list_existing(self.store, self.settings.bookie_id)\n",
        new="""            from bookie.boot.boundary_marks import Existing

            async def look_and_mark() -> None:
                found = await list_existing(self.store, self.settings.bookie_id)
                await in_thread(partial(mark_existing, storage, epoch, found))

            if reason:
                self._marking = asyncio.ensure_future(look_and_mark())
                self._marking.add_done_callback(lambda one: one.cancelled() or one.exception())
            existing = Existing(LedgerId(-1), listing)
""",
        also=(
            Patch(
                BOOT,
                "            if reason:\n"
                "                await "
                "in_thread(partial(mark_existing, storage, epoch, existing))\n",
                "",
            ),
        ),
        model="boot-not-awaited",
        tests=(DIES_AT_BOOT,),
    ),
    planted(
        "the markers of the last boot go before its ledgers are marked",
        stands_for=("S26 marker cleared early",),
        file=BOOT,
        old='        self._step("replaying")\n',
        new="        for each in self._settings.directories:\n"
        '            if self._disk.exists(each / "DIRTY"):\n'
        '                self._disk.unlink(each / "DIRTY")\n'
        '        self._step("replaying")\n',
        model="marker-lost",
        tests=(DIES_AT_BOOT,),
    ),
    planted(
        "a stop in the midst of marking counts as a clean one",
        stands_for=("S26 marker cleared early",),
        file=BOOT,
        old="                await in_thread(storage.close)\n            raise\n\n    def approve",
        new="                markers = self._takeover.markers\n"
        "                markers.current = markers.current or Marker(\n"
        "                    seen.found.last_served, DurabilityMode.MEMORY, 99, is_clean=True\n"
        "                )\n"
        "                await asyncio.to_thread(finish_clean_stop, storage, markers)\n"
        "            raise\n\n    def approve",
        tests=(BOOTS + "test_s26_a_stop_while_marking_keeps_the_older_markers",),
    ),
    planted(
        "the directory of a marker is not synced",
        stands_for=("unsynced marker", "S27 unsynced marker"),
        file=DISK,
        old="    disk.rename(fresh, path)\n    disk.sync_directory(path.parent)\n",
        new="    disk.rename(fresh, path)\n",
        model="marker-lost",
        tests=(FILES + "test_s27_once_written_markers_survive_every_crash",),
    ),
    planted(
        "the content of a marker is not synced",
        stands_for=("unsynced marker",),
        file=DISK,
        old="        file.pwrite([content], 0)\n        file.fdatasync()\n",
        new="        file.pwrite([content], 0)\n",
        tests=(FILES + "test_a_crash_while_stamping_leaves_the_old_stamp_or_the_new",),
    ),
    planted(
        "a stop says that it was clean before it flushes",
        stands_for=("S28 unconditional clear",),
        file=BOOT,
        old="    storage.close()\n    passing(",
        new="    markers.end_cleanly()\n    storage.close()\n    passing(",
        tests=(BOOTS + "test_s28_a_stop_that_could_not_flush_keeps_a_marker",),
    ),
    planted(
        "a stop says that it was clean although its flush failed",
        stands_for=("marker cleared after failed flush", "S28 unconditional clear"),
        file=BOOT,
        old="    storage.close()\n    passing(",
        new="    with contextlib.suppress(StorageError):\n        storage.close()\n    passing(",
        tests=(
            BOOTS + "test_s28_a_stop_that_could_not_flush_keeps_a_marker",
            LIVES + "test_s28_a_final_flush_that_fails_keeps_the_markers",
        ),
    ),
    planted(
        "today's durability mode decides what the last boot may have lost",
        stands_for=("S29 deciding by current config",),
        file=BOOT,
        old="reason = unclean_reason(decision, storage.report)",
        new="mode = self._settings.storage.mode if decision.is_dirty else None\n"
        "        reason = unclean_reason(replace(decision, previous_mode=mode), storage.report)",
        tests=(BOOTS + "test_s29_the_mode_in_the_marker_decides_not_todays",),
    ),
    planted(
        "an unreadable marker is overruled by a readable one",
        stands_for=("S29 deciding by current config",),
        file=VERDICTS,
        old="    if unreadable or lacks_one or not known:",
        new="    if lacks_one or not known:",
        tests=(
            "tests/bookie/boot/test_verdicts.py::"
            "test_an_unreadable_marker_among_good_ones_is_memory_mode",
        ),
    ),
    planted(
        "limbo goes by the ensemble that a ledger began with",
        stands_for=("S38 stale listing",),
        file=LISTING,
        old="if not metadata.is_closed and bookie_id in metadata.last_fragment.ensemble:",
        new="if not metadata.is_closed and bookie_id in metadata.fragments[0].ensemble:",
        tests=(BOOTS + "test_s38_an_ensemble_change_that_was_acked_in_puts_the_ledger_in_limbo",),
    ),
    planted(
        "a server of the metadata store is read that may lag",
        stands_for=("S38 stale listing",),
        file=SESSION,
        old='[] if synced_in == generation else [self._begin(lambda zk: zk.sync_async("/"))]',
        new="[]",
        model="stale-listing-at-boot",
        tests=(
            "tests/bookie/metadata/test_session.py::test_s38_a_read_is_no_older_than_its_question",
        ),
    ),
    planted(
        "a bookie lists its ledgers at a follower that may lag",
        stands_for=("S38 stale listing",),
        file=LISTING,
        old="    await store.barrier()\n",
        new="",
        tests=(
            "tests/bookie/metadata/test_naming.py::"
            "test_s38_a_look_names_a_ledger_that_a_lagging_follower_does_not_show_yet",
        ),
    ),
    planted(
        "a mark goes by what a follower shows that may lag",
        stands_for=("S38 stale listing", "S28 unconditional clear"),
        file=MARKS,
        old="            await self.store.barrier()\n        except",
        new="            await self.store.instance_id()\n        except",
        tests=(
            "tests/bookie/server/test_marks.py::"
            "test_s38_no_mark_goes_and_no_loss_is_taken_by_what_a_lagging_follower_shows",
        ),
    ),
    planted(
        "an empty ledger directory beside stamped ones is taken as it is",
        stands_for=("S39 per-directory cookie ignored",),
        file=VERDICTS,
        old="return DiskVerdict.FOREIGN if disk.strange else DiskVerdict.EMPTY",
        new="return DiskVerdict.FOREIGN if disk.strange else DiskVerdict.OK",
        tests=(MARKED + "test_s39_after_one_lost_disk_no_ledger_denies_anything",),
    ),
    planted(
        "the cookie is stamped before the fence",
        stands_for=("cookie stamped before the fence",),
        file=BOOT,
        old="        listing = Listing()\n        if self._trusts_notes",
        new="        fixed = await self._takeover.take_disks(seen, decision)\n"
        "        listing = Listing()\n        if self._trusts_notes",
        also=(
            Patch(
                BOOT,
                "        fixed = await self._takeover.take_disks(seen, decision)\n"
                "        claim = await self._takeover.stamp(seen, epoch)",
                "        claim = await self._takeover.stamp(seen, epoch)",
            ),
        ),
        tests=(DISKS + "test_the_cookie_comes_after_the_marks_and_the_epoch_last",),
    ),
    planted(
        "directories are stamped and marked as running before the fence",
        stands_for=("cookie stamped before the fence",),
        file=BOOT,
        old="        listing = Listing()\n        if self._trusts_notes",
        new="        claim = await self._takeover.stamp(seen, epoch)\n"
        "        is_calm = not reason and not decision.is_dirty\n"
        "        await self._takeover.begin_to_serve(seen, claim, is_calm=is_calm)\n"
        "        listing = Listing()\n        if self._trusts_notes",
        also=(
            Patch(
                BOOT,
                "        fixed = await self._takeover.take_disks(seen, decision)\n"
                "        claim = await self._takeover.stamp(seen, epoch)\n"
                "        if await self._takeover.outlive_former(found, claim) and reason:\n"
                "            listing = await self._mark_again(storage, found, epoch)\n"
                "        is_calm = not reason and not decision.is_dirty\n"
                "        await self._takeover.begin_to_serve(seen, claim, is_calm=is_calm)\n",
                "        fixed = await self._takeover.take_disks(seen, decision)\n",
            ),
        ),
        tests=(DIES_AT_BOOT,),
    ),
    planted(
        "a consent counts for disks that came while it was waited for",
        stands_for=("what nobody has seen counts",),
        file=BOOT,
        old="            # Other disks may lie there by now, which nobody has judged.\n"
        "            seen, decision = await self._judge()\n",
        new="            break\n",
        tests=(
            DISKS
            + "test_a_consent_to_an_empty_disk_is_none_to_another_bookies_that_is_mounted_late",
        ),
    ),
)
