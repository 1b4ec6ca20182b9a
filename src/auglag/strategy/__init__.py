"""How a run combines several methods: what is tried next, and when a run ends. Read `plan` first."""
