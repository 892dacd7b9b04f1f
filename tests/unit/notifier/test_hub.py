"""Who watches what: registrations, owners, ends, leaving, and what it costs."""

import gc
import random
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from inferq.apikeys import ANYONE, Caller
from inferq.messages import Event
from inferq.watched import Watched
from notifier.hub import Hub, Member
from notifier.mailbox import Ledger
from notifier.topic import FRAME_BYTES, Topic

ALICE, BOB = Caller(name="alice"), Caller(name="bob")


def event(job_id: str, seq: int, status: str = "running", pad: str = "") -> Event:
    """Make an event."""
    record = msgspec.json.encode({"job_id": job_id, "seq": seq, "status": status, "pad": pad})
    return Event(job_id=job_id, seq=seq, type=f"job.{status}", record=record)


class Client(Member):
    """A member that notes what it is told."""

    __slots__ = ("hub", "lost", "said", "woken")

    def __init__(self, hub: Hub, caller: Caller, *, single: bool) -> None:
        super().__init__(caller, single=single)
        self.hub = hub
        self.said: list[str] = []
        self.lost: list[str] = []
        self.woken = 0
        hub.enter(self)

    def wake(self) -> None:
        """Count it."""
        self.woken += 1

    def pressed(self) -> None:
        """Leave."""
        self.said.append("pressed")
        self.hub.leave(self)

    def crowded_out(self) -> None:
        """Leave."""
        self.said.append("crowded out")
        self.hub.leave(self)

    def missing(self, job_id: str) -> None:
        """Note it."""
        self.lost.append(job_id)

    def reads(self) -> list[tuple[str, str, int]]:
        """Take what waits: type, job and `seq`."""
        texts = [wire[wire.index(b"{") :] for wire in self.mailbox.take(10_000_000)]
        frames = [msgspec.json.decode(text) for text in texts]
        return [(frame.get("type", "record"), frame["job_id"], frame["seq"]) for frame in frames]


@dataclass
class Room:
    """A hub on a feed that a test moves by hand."""

    watchers: dict[str, Callable[[Event | None], None]] = field(default_factory=dict)
    most_held_bytes: int = 1_000_000_000

    def __post_init__(self) -> None:
        self.hub = Hub(self._watch, most_held_bytes=self.most_held_bytes)

    def _watch(self, job_id: str, watcher: Callable[[Event | None], None]) -> Callable[[], None]:
        assert job_id not in self.watchers, "one watcher is enough"
        self.watchers[job_id] = watcher

        def end() -> None:
            del self.watchers[job_id]

        return end

    def client(self, caller: Caller = ANYONE, *, single: bool = False) -> Client:
        """A new client."""
        return Client(self.hub, caller, single=single)

    def subscribe(
        self, client: Client, found: Event | None, *, owner: str = "", after: int | None = None
    ) -> None:
        """Watch, look, join; ``found`` is what the look finds."""
        topic = self.hub.pin("j" if found is None else found.job_id)
        if found is not None:
            self.hub.learn(topic, owner, found)
        self.hub.join(client, topic, after)
        self.hub.unpin(topic)


def test_a_job_is_followed_to_its_end() -> None:
    """Snapshot, changes, end; then nobody watches it at the feed any more."""
    room = Room()
    client = room.client()
    room.subscribe(client, event("j", 1, "queued"))
    assert client.reads() == [("snapshot", "j", 1)]
    room.watchers["j"](event("j", 2))
    assert client.reads() == [("job.running", "j", 2)]
    assert (room.hub.registrations, client.jobs, len(room.hub)) == (1, 1, 1)
    room.watchers["j"](event("j", 3, "done"))
    assert client.reads() == [("job.done", "j", 3)]
    assert (room.hub.registrations, client.jobs, len(room.hub), room.watchers) == (0, 0, 0, {})
    assert room.hub.ledger.held_bytes == 0


def test_a_frame_is_made_once_for_all() -> None:
    """Every mailbox refers to the same bytes."""
    room = Room()
    clients = [room.client() for _ in range(3)]
    for client in clients:
        room.subscribe(client, event("j", 1, "queued"))
    snapshots = {id(client.mailbox.take(1000)[0]) for client in clients}
    room.watchers["j"](event("j", 2))
    assert room.hub.ledger.held_bytes == len(event("j", 2).record) + FRAME_BYTES
    wires = [client.mailbox.take(1000)[0] for client in clients]
    assert (len(snapshots), len({id(wire) for wire in wires})) == (1, 1)


@pytest.mark.parametrize(("caller", "sees"), [(ALICE, True), (BOB, False), (ANYONE, True)])
@pytest.mark.parametrize("early", [None, "running", "done"])
def test_nothing_is_shown_before_it_is_known_whose_it_is(
    caller: Caller, sees: bool, early: str | None
) -> None:
    """What happens between watching and the look's answer is kept, and shown to the owner alone."""
    room = Room()
    client = room.client(caller)
    topic = room.hub.pin("j")
    if early is not None:
        room.watchers["j"](event("j", 2, early))
    assert client.reads() == []
    room.hub.learn(topic, "alice", event("j", 1, "queued"))
    assert client.reads() == []
    room.hub.join(client, topic)
    room.hub.unpin(topic)
    seq = 1 if early is None else 2
    assert client.reads() == ([("snapshot", "j", seq)] if sees else [])
    assert client.lost == ([] if sees else ["j"])
    assert len(room.hub) == (1 if sees and early != "done" else 0)


def test_who_sees_everything_needs_no_owner() -> None:
    """An end that was heard is known, whoever it belongs to; others wait for the look."""
    room = Room()
    admin, alice = room.client(), room.client(ALICE)
    topic = room.hub.pin("j")
    assert not room.hub.knows(admin, topic)
    room.watchers["j"](event("j", 2, "done"))
    assert room.hub.knows(admin, topic)
    assert not room.hub.knows(alice, topic)
    room.hub.join(admin, topic)
    room.hub.join(alice, topic)
    assert (admin.reads(), alice.reads(), alice.lost) == ([("snapshot", "j", 2)], [], ["j"])


def test_an_unknown_job_is_missing() -> None:
    """A look that found nothing leaves nothing behind."""
    room = Room()
    client = room.client()
    room.subscribe(client, None)
    assert (client.lost, len(room.hub), room.watchers) == (["j"], 0, {})


@pytest.mark.parametrize(
    ("after", "found", "sent"),
    [
        (None, event("j", 1), [("snapshot", "j", 1)]),
        (1, event("j", 1), []),
        (0, event("j", 1), [("snapshot", "j", 1)]),
        (5, event("j", 1), [("snapshot", "j", 1)]),
        (3, event("j", 3, "done"), [("snapshot", "j", 3)]),
    ],
)
def test_who_resumes_is_sent_what_it_has_not_seen(
    after: int | None, found: Event, sent: list[tuple[str, str, int]]
) -> None:
    """An end is always told."""
    room = Room()
    client = room.client()
    room.subscribe(client, found, after=after)
    assert client.reads() == sent


def test_what_is_old_or_known_is_not_sent() -> None:
    """A repeated event, an older look; but an end always is, if its record was rebuilt and counts from 1 again."""
    room = Room()
    client, other = room.client(), room.client()
    room.subscribe(client, event("j", 1, "queued"))
    room.watchers["j"](event("j", 5))
    client.reads()
    room.watchers["j"](event("j", 5))
    room.watchers["j"](event("j", 4))
    room.subscribe(other, event("j", 3))
    assert (client.reads(), other.reads()) == ([], [("snapshot", "j", 5)])
    watcher = room.watchers["j"]
    watcher(event("j", 2, "done"))
    watcher(event("j", 6))
    watcher(None)
    assert (client.reads(), other.reads()) == ([("job.done", "j", 2)], [("job.done", "j", 2)])
    assert (client.lost, other.lost) == ([], [])


def test_a_look_that_is_ahead_of_the_events_is_news_for_all() -> None:
    """Its event would be taken for a repetition."""
    room = Room()
    client, other = room.client(), room.client()
    room.subscribe(client, event("j", 1, "queued"))
    client.reads()
    room.subscribe(other, event("j", 2))
    room.watchers["j"](event("j", 2))
    assert (client.reads(), other.reads()) == ([("job.running", "j", 2)], [("snapshot", "j", 2)])


def test_asking_twice_registers_once() -> None:
    """And each time a snapshot comes."""
    room = Room()
    client = room.client()
    for _ in range(2):
        room.subscribe(client, event("j", 1))
        assert client.reads() == [("snapshot", "j", 1)]
    assert (room.hub.registrations, client.jobs, room.hub.watches(client, "j")) == (1, 1, True)
    assert not room.hub.watches(client, "k")


def test_who_quits_hears_no_more() -> None:
    """Not even what waited; who does not watch a job may quit it as well."""
    room = Room()
    client, other = room.client(), room.client()
    for one in (client, other):
        room.subscribe(one, event("j", 1))
    for job_id in ("j", "j", "k"):
        room.hub.quit(client, job_id)
    room.watchers["j"](event("j", 2))
    assert (client.reads(), len(other.reads())) == ([], 1)
    room.hub.quit(other, "j")
    assert (room.hub.registrations, client.jobs, len(room.hub), room.watchers) == (0, 0, 0, {})
    assert room.hub.ledger.held_bytes == 0


def test_updates_coalesce_until_they_are_read() -> None:
    """The newest is sent, in the form that was due; it is counted."""
    room = Room()
    client = room.client()
    room.subscribe(client, event("j", 1, "queued"))
    room.watchers["j"](event("j", 2, pad="x" * 1000))
    assert room.hub.ledger.held_bytes == client.mailbox.size > 1000
    room.watchers["j"](event("j", 3, "done"))
    assert room.hub.ledger.held_bytes == client.mailbox.size < 1000
    assert client.reads() == [("snapshot", "j", 3)]
    assert (room.hub.coalesced, room.hub.ledger.held_bytes) == (2, 0)


def test_who_waits_for_the_end_is_sent_that_alone() -> None:
    """As the bare record, whether it has ended already or not."""
    room = Room()
    client, late = room.client(single=True), room.client(single=True)
    room.subscribe(client, event("j", 1, "queued"))
    room.watchers["j"](event("j", 2))
    assert client.reads() == []
    topic = room.hub.pin("j")
    room.watchers["j"](event("j", 3, "done"))
    room.hub.join(late, topic)
    assert client.reads() == late.reads() == [("record", "j", 3)]


def test_a_record_that_is_gone_ends_the_subscription() -> None:
    """Everybody who watched is told."""
    room = Room()
    client = room.client()
    room.subscribe(client, event("j", 1))
    gone = room.client()
    room.subscribe(gone, event("j", 1))
    room.hub.leave(gone)
    room.watchers["j"](None)
    assert (client.lost, gone.lost, client.jobs, len(room.hub)) == (["j"], [], 0, 0)


@pytest.mark.parametrize("status", ["running", "done"])
def test_a_record_that_is_gone_before_its_look_is_told_is_unknown(status: str) -> None:
    """Nothing of it would come any more; who watches the job since, rebuilt, is not concerned."""
    room = Room()
    late, again = room.client(), room.client()
    topic = room.hub.pin("j")
    room.watchers["j"](None)
    room.subscribe(again, event("j", 1))
    room.hub.learn(topic, "", event("j", 3, status))
    room.hub.join(late, topic)
    room.hub.unpin(topic)
    assert (late.reads(), late.lost, late.jobs) == ([], ["j"], 0)
    assert room.hub.watches(again, "j")
    room.hub.quit(again, "j")
    assert (len(room.hub), room.hub.registrations, room.watchers) == (0, 0, {})


def test_a_record_that_is_gone_is_let_go() -> None:
    """Those who watched it keep an empty topic in their lists for a while."""
    room = Room()
    client = room.client()
    room.subscribe(client, event("j", 1))
    client.reads()
    room.watchers["j"](None)
    assert [topic.event for topic in client.topics] == [None]


def test_what_has_ended_is_freed_at_once() -> None:
    """No cycle is left for a collector that hardly ever runs: not at an end, and not when the last member quits."""
    feed = Watched(lambda job_id: None)
    watchers: list[weakref.ref[Callable[[Event | None], None]]] = []

    def watch(job_id: str, watcher: Callable[[Event | None], None]) -> Callable[[], None]:
        watchers.append(weakref.ref(watcher))
        return feed.begin(job_id, watcher)

    hub = Hub(watch)
    gc.disable()
    try:
        hub.pin("ends")
        hub.unpin(hub.pin("quit"))
        (watcher,) = [found for each in watchers if (found := each()) is not None]
        watcher(event("ends", 2, "done"))
        del watcher
        assert [each() for each in watchers] == [None, None]
    finally:
        gc.enable()


def test_an_error_is_sent_in_its_turn() -> None:
    """Behind what was there before."""
    room = Room()
    client = room.client()
    room.subscribe(client, event("j", 1))
    room.hub.note(client, "not_found", "no such job", "k")
    frames = [msgspec.json.decode(wire[wire.index(b"{") :]) for wire in client.mailbox.take(10_000)]
    assert frames[1] == {"type": "error", "code": "not_found", "detail": "no such job", "job_id": "k"}


def test_who_has_left_is_sent_no_error() -> None:
    """Nobody would let go of it, and what is counted as held would never be less again."""
    room = Room()
    client = room.client()
    room.hub.leave(client)
    assert not room.hub.reap(4)
    room.hub.note(client, "not_found", "no such job", "k")
    assert (len(client.mailbox), room.hub.ledger.held_bytes) == (0, 0)


def test_who_left_is_taken_out_piece_by_piece() -> None:
    """It is sent nothing from the first moment; its number is free again after the last piece."""
    room = Room()
    client, other = room.client(), room.client()
    for number in range(10):
        room.subscribe(client, event(f"j{number}", 1))
    room.subscribe(other, event("j9", 1))
    other.reads()
    room.hub.leave(client)
    room.hub.leave(client)
    room.watchers["j9"](event("j9", 2))
    assert (len(client.mailbox), other.reads()) == (10, [("job.running", "j9", 2)])
    room.watchers["j8"](event("j8", 2, "done"))
    pieces = 1
    while room.hub.reap(4):
        pieces += 1
        assert room.client().number > 1
    assert pieces == 5
    assert len(client.mailbox) == 0
    assert (set(room.watchers), room.hub.registrations) == ({"j9"}, 1)
    assert room.client().number == client.number
    assert not room.hub.reap(4)


def test_a_full_mailbox_is_its_owners_affair() -> None:
    """It is told, and the others are served."""
    room = Room()
    slow, other = room.client(), room.client()
    for client in (slow, other):
        room.subscribe(client, event("j", 1))
    other.reads()
    slow.mailbox.size += 100_000_000
    room.watchers["j"](event("j", 2))
    assert (slow.said, other.reads()) == (["pressed"], [("job.running", "j", 2)])
    other.mailbox.size += 100_000_000
    room.hub.note(other, "x", "y")
    assert other.said == ["pressed"]


def test_who_is_written_to_anyway_is_not_woken() -> None:
    """What it is sent meanwhile goes out with the rest."""
    room = Room()
    client = room.client()
    room.subscribe(client, event("j", 1))
    client.reads()
    client.waking, client.woken = True, 0
    room.watchers["j"](event("j", 2))
    assert (client.woken, client.reads()) == (0, [("job.running", "j", 2)])
    client.waking = False
    room.watchers["j"](event("j", 3))
    assert (client.woken, client.reads()) == (1, [("job.running", "j", 3)])


def test_all_mailboxes_together_are_bounded() -> None:
    """Past the bound the fullest leaves, until what is held fits."""
    room = Room(most_held_bytes=10_000)
    clients = [room.client() for _ in range(3)]
    for number, client in enumerate(clients):
        for job in range(4 if number == 2 else 1):
            room.subscribe(client, event(f"j{number}-{job}", 1, pad="x" * 2000))
    assert [client.said for client in clients] == [[], [], ["crowded out"]]
    # Nobody else has to go before what that one held is let go.
    room.hub.note(clients[0], "x", "y")
    assert clients[0].said == []
    # It goes before those that have nothing waiting.
    idle = room.client()
    room.hub.leave(idle)
    room.hub.reap(4)
    assert room.hub.ledger.held_bytes <= 10_000


def test_mailboxes_of_those_who_left_come_before_their_lists() -> None:
    """All that they hold is let go before anybody is taken out of topics: until then others would have to leave."""
    room = Room()
    clients = [room.client() for _ in range(2)]
    for client in clients:
        for number in range(50):
            room.subscribe(client, event(f"{client.number}-{number}", 1))
    for client in clients:
        room.hub.leave(client)
    room.hub.reap(100)
    assert (room.hub.ledger.held_bytes, room.hub.registrations) == (0, 100)
    while room.hub.reap(7):
        pass
    assert room.hub.registrations == 0


def test_an_end_crowds_out_the_fullest_alone() -> None:
    """The others are sent it; what the fullest was to be sent goes with it."""
    room = Room(most_held_bytes=5000)
    first, fullest = room.client(), room.client()
    for client in (first, fullest):
        room.subscribe(client, event("j", 1))
        client.reads()
    room.hub.note(fullest, "x", "y" * 4000)
    room.watchers["j"](event("j", 2, "done", pad="x" * 1500))
    assert fullest.said == ["crowded out"]
    assert first.reads() == [("job.done", "j", 2)]
    room.hub.leave(fullest)
    room.hub.reap(100)
    assert room.hub.ledger.held_bytes == 0


def test_lists_of_what_has_ended_do_not_grow() -> None:
    """A client that stays for ever and watches one job after the other keeps little of them."""
    room = Room()
    client = room.client()
    for number in range(10_000):
        room.subscribe(client, event(f"j{number}", 1))
        client.reads()
        room.watchers[f"j{number}"](event(f"j{number}", 2, "done"))
        client.reads()
        assert len(client.topics) < 100
    assert all(topic.event is None for topic in client.topics)


def test_whatever_happens_everybody_is_told_of_what_it_watches() -> None:
    """At random: subscribing, quitting, changing, ending, leaving; then nothing is left behind."""
    chance = random.Random(1)
    room = Room()
    clients = [room.client() for _ in range(8)]
    seqs = dict.fromkeys((f"j{number}" for number in range(12)), 1)
    for _ in range(5000):
        number, job_id = chance.randrange(8), f"j{chance.randrange(12)}"
        client = clients[number]
        match chance.randrange(6):
            case 0 | 1:
                room.subscribe(client, event(job_id, seqs[job_id]))
                assert (job_id, seqs[job_id]) in [read[1:] for read in client.reads()]
            case 2:
                room.hub.quit(client, job_id)
            case 3 | 4:
                seqs[job_id] += 1
                watching = [one for one in clients if room.hub.watches(one, job_id)]
                for one in clients:
                    one.reads()
                status = chance.choice(["running", "queued", "done"])
                if job_id in room.watchers:
                    room.watchers[job_id](event(job_id, seqs[job_id], status))
                told = [one for one in clients if one.reads() == [(f"job.{status}", job_id, seqs[job_id])]]
                assert told == watching
            case _:
                room.hub.leave(client)
                room.hub.reap(chance.randrange(5))
                clients[number] = room.client()
        assert room.hub.registrations >= sum(one.jobs for one in clients)
    for client in clients:
        room.hub.leave(client)
    while room.hub.reap(3):
        pass
    assert (len(room.hub), room.hub.registrations, room.watchers) == (0, 0, {})
    assert room.hub.ledger.held_bytes == 0


def test_a_registration_costs_two_references() -> None:
    """300 clients that watch the same 20,000 jobs: at most 20 bytes for each of the six million."""
    topic, number = Topic("j", Ledger()), 300
    for place in range(number):
        topic.add(place)
    listed: list[Topic] = []
    while len(listed) < 20_000:
        listed.append(topic)
    empty = sys.getsizeof([])
    cost = (sys.getsizeof(topic.numbers) - empty) / number + (sys.getsizeof(listed) - empty) / 20_000
    assert cost <= 20


def test_members_do_not_act_by_themselves() -> None:
    """What is done with what waits is for the connection to say."""
    member = Member(ANYONE, single=False)
    for call in (member.wake, member.pressed, member.crowded_out, lambda: member.missing("j")):
        with pytest.raises(NotImplementedError):
            call()


def test_a_topic_that_was_never_watched_ends_without_a_word() -> None:
    """It has nobody to tell of it."""
    topic = Topic("j", Ledger())
    topic.end()
    assert (topic.idle, topic.remove(1), topic.has(1)) == (True, False, False)
