"""The only place that knows both the model and the implementation: disks, explorers, checkers, findings."""
