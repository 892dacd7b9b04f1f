"""The peers' servers. They run in an environment of their own, so they import what that one holds, and each other."""
