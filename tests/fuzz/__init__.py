"""Sequences of system calls, natively and under Belljar: what they give must be the same."""
