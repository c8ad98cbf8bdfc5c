"""People decide: paused runs and decisions on the disk, and what a resumed run may do."""
