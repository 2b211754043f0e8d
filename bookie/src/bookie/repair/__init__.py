"""Audit and repair: which entries a bookie should have, which it has, bringing back the rest.

Rooms, each of which imports only those before it: `judge` (arithmetic), `look` (asks bookies),
`reports` (results), `mend` (changes ledgers), `engine` (where the work runs), `spark`, `jobs` (the
order of steps). `runs` starts a whole job on the cluster behind a URL: start there.
"""
