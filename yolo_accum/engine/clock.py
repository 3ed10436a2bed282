"""Counters that only grow. A refused update advances the attempts and the images seen, nothing else."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Clock:
    """How far a run is."""

    images_seen: int = 0
    """That went through the network, in applied and refused updates."""
    images_applied: int = 0
    """Of applied updates: what learning rate and momentum follow."""
    images_dropped: int = 0
    updates_attempted: int = 0
    updates_applied: int = 0
    updates_skipped: int = 0
    skipped_in_a_row: int = 0

    def after_update(self, images: int, applied: bool) -> Clock:
        """The clock after an attempted update with ``images`` images."""
        return replace(
            self,
            images_seen=self.images_seen + images,
            images_applied=self.images_applied + images * applied,
            updates_attempted=self.updates_attempted + 1,
            updates_applied=self.updates_applied + applied,
            updates_skipped=self.updates_skipped + (not applied),
            skipped_in_a_row=0 if applied else self.skipped_in_a_row + 1,
        )

    def after_drop(self, images: int) -> Clock:
        """The clock after a window that was dropped by the plan."""
        return replace(self, images_dropped=self.images_dropped + images)

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
