"""Control plane messages: the proto file and the code generated from it."""
