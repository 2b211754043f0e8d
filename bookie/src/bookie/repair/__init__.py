"""Audit and repair: which entries a bookie should have, which it has, bringing back the rest."""
