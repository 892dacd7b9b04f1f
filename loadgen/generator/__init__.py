"""The generator: a plan goes in, a process of its own sends it open loop, a report comes out."""
