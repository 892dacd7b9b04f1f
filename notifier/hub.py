"""Who watches what in this process. Pure: the feed comes in as the function that watches, writing is the members' own.

Rules:

1. A topic for each watched job, with one watcher at the feed however many members it has; it goes with its last member
   or with the job's end.
2. Nothing of a job goes to a member before a look has told that it may see it. Until then the topic is pinned, and
   keeps the newest event: what happens between watching and the look's answer is neither lost nor shown to others.
3. A registration is two references, one at the topic and one at the member: 300 clients may each watch the same 20,000
   jobs. So what has ended is not looked for in the members' lists but passed over there, and swept out now and then.
4. A member that leaves is taken out piece by piece (`reap`), so that leaving with 20,000 jobs and a full mailbox stops
   nobody. Its number is given to another only when it is in no topic any more.
5. Members are served in one loop without waiting: whoever's mailbox is full is told (`pressed`) and served no longer.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final

from inferq.apikeys import Caller, may_see
from inferq.frames import problem
from inferq.messages import Event
from notifier.mailbox import MOST_BYTES, MOST_MESSAGES, Kind, Ledger, Mailbox, Note
from notifier.topic import Topic
from notifier.wire import text_message

Watch = Callable[[str, Callable[[Event | None], None]], Callable[[], None]]
"""Watches a job at the feed; what it returns ends that."""

MOST_HELD_BYTES: Final = 256 * 1024 * 1024
_FEW_TOPICS: Final = 64


class Member:
    """A client that watches; ``single`` is one that is sent the final record alone."""

    __slots__ = ("caller", "jobs", "mailbox", "number", "open", "single", "topics", "waking")

    def __init__(self, caller: Caller, *, single: bool) -> None:
        self.caller, self.single = caller, single
        self.mailbox = Mailbox()
        self.topics: list[Topic] = []
        self.jobs = 0
        self.number = -1
        self.open = True
        # Whether it will be written to anyway, and need not be woken.
        self.waking = False

    def wake(self) -> None:
        """Hear that there is something to write."""
        raise NotImplementedError

    def pressed(self) -> None:
        """Hear that the mailbox is full: write what can be written, or leave."""
        raise NotImplementedError

    def crowded_out(self) -> None:
        """Hear that all mailboxes together are full, and that this one is the fullest: leave."""
        raise NotImplementedError

    def missing(self, job_id: str) -> None:
        """Hear that there is no such job."""
        raise NotImplementedError


class Hub:
    """Topics and members."""

    def __init__(self, watch: Watch, *, most_held_bytes: int = MOST_HELD_BYTES) -> None:
        self._watch, self._most_held_bytes = watch, most_held_bytes
        self._topics: dict[str, Topic] = {}
        self._members: list[Member | None] = []
        self._free: list[int] = []
        self._leaving: deque[Member] = deque()
        self.ledger = Ledger()
        self.registrations = 0
        self.coalesced = 0

    def __len__(self) -> int:
        return len(self._topics)

    def enter(self, member: Member) -> None:
        """Give a member its number."""
        if self._free:
            member.number = heappop(self._free)
            self._members[member.number] = member
        else:
            member.number = len(self._members)
            self._members.append(member)

    def leave(self, member: Member) -> None:
        """Send a member nothing more; `reap` sees to the rest."""
        if member.open:
            member.open = False
            # Those with something in their mailboxes first: that is memory.
            if len(member.mailbox):
                self._leaving.appendleft(member)
            else:
                self._leaving.append(member)

    def reap(self, steps: int) -> bool:
        """Let go, in so many steps, of what those that left were to be sent and watched; say whether more is to do."""
        while self._leaving and steps > 0:
            member = self._leaving[0]
            if len(member.mailbox):
                steps -= member.mailbox.discard(steps)
                if not len(member.mailbox):
                    # Behind those that still hold something.
                    self._leaving.rotate(-1)
                continue
            for _ in range(min(steps, len(member.topics))):
                self._take_out(member, member.topics.pop())
                steps -= 1
            if not member.topics:
                self._leaving.popleft()
                self._members[member.number] = None
                heappush(self._free, member.number)
        return bool(self._leaving)

    def pin(self, job_id: str) -> Topic:
        """Return a job's topic, watched from now on; `unpin` it after the look and what follows from it."""
        topic = self._topics.get(job_id)
        if topic is None:
            topic = self._topics[job_id] = Topic(job_id, self.ledger)
            watched = topic
            topic.end = self._watch(job_id, lambda event: self._heard(watched, event))
        topic.pins += 1
        return topic

    def unpin(self, topic: Topic) -> None:
        """Let a topic go that nobody watches."""
        topic.pins -= 1
        self._let_go(topic)
        topic.shed()

    def learn(self, topic: Topic, owner: str, found: Event) -> None:
        """Take over what a look has found of a pinned topic; one that has ended meanwhile stays as it is."""
        topic.owner = owner
        if not topic.ended:
            self._news(topic, found)

    def knows(self, member: Member, topic: Topic) -> bool:
        """Say whether a topic's job is known, and one that this member may see."""
        caller = member.caller
        seen = caller.admin or (topic.owner is not None and may_see(caller, topic.owner))
        return seen and topic.event is not None

    def join(self, member: Member, topic: Topic, after: int | None = None) -> None:
        """Let a member watch a pinned topic of which a look has told; it is sent what is known.

        ``after`` is the `seq` that it has seen: nothing is sent where that is the last, and not final.
        """
        if not self.knows(member, topic) or (topic.ended and not topic.final):
            # Unknown, or gone since: nothing more would come.
            member.missing(topic.job_id)
            return
        assert topic.event is not None, "it is known"
        if not topic.ended and topic.add(member.number):
            self.registrations += 1
            member.jobs += 1
            member.topics.append(topic)
            if len(member.topics) > 2 * member.jobs + _FEW_TOPICS:
                live = dict.fromkeys(topic for topic in member.topics if topic.has(member.number))
                member.topics = list(live)
        if member.single:
            if topic.final:
                self._put(member, topic, Kind.RECORD)
        elif topic.final or topic.event.seq != after:
            self._put(member, topic, Kind.SNAPSHOT)

    def quit(self, member: Member, job_id: str) -> None:
        """Let a member watch a job no more, if it does."""
        topic = self._topics.get(job_id)
        if topic is not None:
            member.mailbox.drop(topic)
            self._take_out(member, topic)

    def watches(self, member: Member, job_id: str) -> bool:
        """Say whether a member watches a job."""
        topic = self._topics.get(job_id)
        return topic is not None and topic.has(member.number)

    def note(self, member: Member, code: str, detail: str, job_id: str | None = None) -> None:
        """Send a member an error; one that has left is sent nothing, as nobody would let go of it."""
        if member.open:
            self._put(member, Note(text_message(problem(code, detail, job_id)), self.ledger), Kind.EVENT)

    def _heard(self, topic: Topic, event: Event | None) -> None:
        if topic.ended:
            return
        if event is not None:
            self._news(topic, event)
            return
        for member in self._end(topic):
            if member.open:
                member.missing(topic.job_id)
        topic.shed()

    def _news(self, topic: Topic, event: Event) -> None:
        if topic.outdates(event):
            return
        grown = topic.take(event)
        if topic.final:
            self._spread(topic, self._end(topic), grown)
            topic.shed()
        else:
            found = map(self._members.__getitem__, topic.numbers)
            self._spread(topic, [one for one in found if one is not None and not one.single], grown)

    def _spread(self, topic: Topic, members: Sequence[Member], grown: int) -> None:
        """Send members what is new of a topic.

        As `_put` does for one of them, written out: for 300 that takes a third of the time, and everybody else waits.
        """
        size, fresh = topic.size, 0
        pressed = []
        for member in members:
            if not member.open:
                continue
            mailbox = member.mailbox
            waiting = mailbox.waiting
            if topic in waiting:
                mailbox.size += grown
                self.coalesced += 1
            else:
                waiting[topic] = Kind.RECORD if member.single else Kind.EVENT
                mailbox.size += size
                fresh += 1
            if mailbox.size > MOST_BYTES or len(waiting) > MOST_MESSAGES:
                pressed.append(member)
            elif not member.waking:
                member.wake()
        topic.hold(fresh)
        for member in pressed:
            member.pressed()
        if self.ledger.held_bytes > self._most_held_bytes:
            self._crowd_out()

    def _end(self, topic: Topic) -> list[Member]:
        """End a topic and return the members that it had."""
        topic.finish()
        del self._topics[topic.job_id]
        members = []
        for number in topic.numbers:
            member = self._members[number]
            assert member is not None, "a number is free only when it is in no topic"
            member.jobs -= 1
            members.append(member)
        self.registrations -= len(members)
        topic.numbers = []
        return members

    def _put(self, member: Member, item: Topic | Note, kind: Kind) -> None:
        member.mailbox.put(item, kind)
        if member.mailbox.full:
            member.pressed()
        else:
            member.wake()
        if self.ledger.held_bytes > self._most_held_bytes:
            self._crowd_out()

    def _crowd_out(self) -> None:
        """Send the fullest away, one at a time: what it alone was to be sent is let go first."""
        if not (self._leaving and len(self._leaving[0].mailbox)):
            present = (one for one in self._members if one is not None and one.open)
            max(present, key=lambda one: one.mailbox.size).crowded_out()

    def _take_out(self, member: Member, topic: Topic) -> None:
        if topic.remove(member.number):
            member.jobs -= 1
            self.registrations -= 1
            self._let_go(topic)

    def _let_go(self, topic: Topic) -> None:
        if topic.idle and not topic.ended:
            topic.finish()
            del self._topics[topic.job_id]
            topic.shed()
