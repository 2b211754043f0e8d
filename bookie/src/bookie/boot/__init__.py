"""The boot of a bookie and the end of its stop: they make a bookie without a journal safe.

| step | does | where | a crash right behind it leaves |
|---|---|---|---|
| lock | takes every directory, or waits for the process that holds it | `lock` | nothing |
| look | reads stamps, markers, files; cookie and claim from the store | `inspection` | nothing |
| decide | one verdict for each disk, one decision for the boot | `verdicts` | nothing |
| consent | where disks changed, as the policy asks | `cookie_fix` | nothing |
| doubt | then: markers of the weakest mode on what is left | `marker` | an unclean stop |
| replay | opens the storage; logs and journal are in the indexes | `bookie.storage` | as before |
| mark | unclean: fence boundary, limbo, unchecked in every directory | `boundary_marks` | marks |
| cookie | the store names these disks | `takeover` | a cookie, old stamps |
| stamp | the disks name this bookie, place and epoch | `stamps` | stamps, old claim |
| claim | the store names this process and epoch | `claim` | a claim that never served |
| outlive | waits until no former process can answer; marks again | `takeover` | the same |
| begin | markers, the claim that it serves, markers that say dirty | `marker` | an unclean stop |
| serve | the data ports open, under a lease | `bookie.server` | an unclean stop |

`boot` does these steps in this order. The bookie serves nothing before all of them are durable, and
the next boot judges what a crash has left at least as carefully. A stop ends with
`finish_clean_stop`: it flushes everything, and only then makes the markers say clean.
`drain_marker` is a separate file, since a drain continues over any number of boots.
"""
