"""The classes of a split and how those of another file correspond to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Classes:
    """c classes: label k is ``names[k]``, which the user calls ``ids[k]``."""

    names: tuple[str, ...]
    ids: tuple[int | str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def correspondence(self, other: Classes) -> list[int]:
        """For each label of ``other`` the label here, -1 where there is none.

        Classes correspond by name, since files number the same classes differently. A name that is given twice on
        either side says nothing, so those correspond by name and id.
        """
        unique = {name for name, count in Counter(self.names).items() if count == 1}
        unique -= {name for name, count in Counter(other.names).items() if count > 1}
        by_name = {name: label for label, name in enumerate(self.names) if name in unique}
        by_both = {pair: label for label, pair in enumerate(zip(self.names, self.ids, strict=True))}
        return [
            by_name.get(name, by_both.get((name, number), -1))
            for name, number in zip(other.names, other.ids, strict=True)
        ]

    def with_ids_of(self, other: Classes) -> Classes:
        """The same classes in the same order, called by the ids of ``other`` where it has them.

        An id of this side that the other one uses for something else would be ambiguous in outputs; a class in that
        position keeps its name as id.
        """
        ids: list[int | str] = list(self.ids)
        taken = set(other.ids)
        corresponding = dict(zip(self.correspondence(other), other.ids, strict=True))
        for label, name in enumerate(self.names):
            if label in corresponding:
                ids[label] = corresponding[label]
            elif ids[label] in taken:
                ids[label] = name
        return Classes(names=self.names, ids=tuple(ids))
