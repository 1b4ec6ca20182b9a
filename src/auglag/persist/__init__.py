"""Files that survive a kill: written whole or not at all, read back without pickle."""
