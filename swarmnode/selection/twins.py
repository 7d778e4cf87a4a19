"""Other instances of our key: announcements that our key signed and this home did not make. Pure.

When an instance began tells who of us came later, so it is told again where an earlier moment of
the same instance becomes known.
"""

from __future__ import annotations

from swarmproto import Announcement


class Twins:
    """The instances of one key beside `own_instance`; without that every instance is ours."""

    def __init__(self, own_key: bytes, own_instance: bytes | None) -> None:
        self._own_key = own_key
        self._own_instance = own_instance
        self._earliest: dict[bytes, int] = {}

    def noted(self, announcement: Announcement, now: float) -> int | None:
        """When another instance of our key began, in ms since 1970, where that is news.

        Of one that doesn't tell, it is when the announcement was made.
        """
        instance = announcement.instance
        if announcement.public_key != self._own_key or self._own_instance in (None, instance):
            return None
        # An expired one may be a replay of what this key said in an earlier home.
        if announcement.expires / 1000 <= now:
            return None
        began = announcement.created if announcement.started is None else announcement.started
        earliest = self._earliest.get(instance)
        if earliest is not None and earliest <= began:
            return None
        self._earliest[instance] = began
        return began
