"""The protocol core: sans-I/O rules. Events in, ordered effects out; shells do the rest."""
