"""The Kubernetes platform: bookies as StatefulSets, volumes as claims, repairs as Jobs.

Manifests are pure functions (`bookies`, `surroundings`, `jobs`); `view` reads, `keeper` keeps.
Start at `platform`, which composes them.
"""
