"""The Kubernetes platform: bookies as StatefulSets, volumes as claims, repairs as Jobs."""
