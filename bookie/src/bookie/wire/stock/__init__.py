"""The wire of stock BookKeeper clients, versions 2 and 3: bytes to requests, outcomes to bytes."""
