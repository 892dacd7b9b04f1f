import assert from "node:assert/strict";
import test from "node:test";

import { MOST_LINES, MOST_TURNS, add_turn, conversation, lines, merge, read, surplus, title, write } from "../../../ingress/web/conversations.js";

const ID = "0123456789abcdef0123456789abcdef";

test("what is written is read again as it was", () => {
  const one = conversation("c1", 5);
  const turn = add_turn(one, ["a", "b"], 7);
  Object.assign(turn.lines[0], { job_id: ID, record: { status: "done", seq: 3 }, sent_at: 1, arrived_at: 2 });
  assert.deepEqual(read(write(one)), one);
});

test("what was kept by hand or by another version is left out, and breaks nothing", () => {
  for (const text of ["", "null", "[]", "{", '{"version":2}', '{"version":1,"id":"x"}', '{"version":1,"id":"x","changed_at":1,"turns":3}']) {
    assert.equal(read(text), null, text);
  }
  const odd = { version: 1, id: "x", changed_at: 1, turns: [null, { at: 1 }, { at: 1, lines: [null, { text: 3 }, { text: "a", job_id: "../x" }, { text: "b", job_id: null, record: 3, problem: "no", sent_at: "x" }] }] };
  const found = read(JSON.stringify(odd));
  assert.deepEqual(lines(found).map((line) => line.text), ["b"]);
  assert.equal(lines(found)[0].record, null);
  assert.equal(lines(found)[0].problem, null);
  assert.equal(lines(found)[0].sent_at, null);
});

test("a wait that a closed page has ended is not shown as one", () => {
  const one = conversation("c1", 5);
  add_turn(one, ["a"], 7).lines[0].problem = { code: "queue_full", waits: true };
  assert.equal(lines(read(write(one)))[0].problem.waits, false);
});

test("turns and lines are bounded, and the oldest turn goes", () => {
  const one = conversation("c1", 5);
  for (let number = 0; number < MOST_TURNS + 3; number += 1) add_turn(one, [`${number}`], number);
  assert.equal(one.turns.length, MOST_TURNS);
  assert.equal(one.turns[0].lines[0].text, "3");
  assert.equal(add_turn(one, Array(MOST_LINES + 9).fill("x"), 1).lines.length, MOST_LINES);
});

test("what is too long to be kept loses its oldest turns, and its newest last", () => {
  const one = conversation("c1", 5);
  for (let number = 0; number < 20; number += 1) add_turn(one, ["x".repeat(100)], number);
  const text = write(one, 2500);
  assert.ok(text.length <= 2500);
  const kept = read(text);
  assert.ok(kept.turns.length > 0);
  assert.equal(kept.turns.at(-1).at, 19);
  assert.deepEqual(read(write(one, 10)).turns, []);
});

test("of too many conversations those that were longest unchanged go", () => {
  const all = [1, 5, 3, 4].map((at) => conversation(`c${at}`, at));
  assert.deepEqual(surplus(all, 2), ["c3", "c1"]);
  assert.deepEqual(surplus(all, 4), []);
});

test("what another tab has kept is taken over: its turns, and what it knows more of a line", () => {
  const one = conversation("c1", 5);
  const [first, third] = [add_turn(one, ["a", "b"], 10), add_turn(one, ["c"], 30)];
  const other = read(write(one));
  const second = add_turn(other, ["d"], 20);
  Object.assign(other.turns[0].lines[0], { job_id: ID, record: { status: "done", seq: 3 } });
  other.turns[0].sent = { once: "k", indexes: [0, 1] };
  Object.assign(first.lines[1], { job_id: ID, record: { status: "running", seq: 2 } });
  assert.ok(merge(one, other));
  assert.deepEqual(one.turns, [first, second, third]);
  assert.equal(first.lines[0].record.seq, 3);
  assert.equal(first.lines[1].record.seq, 2);
  assert.equal(first.sent.once, "k");
  assert.equal(one.changed_at, 30);
  assert.ok(!merge(one, read(write(one))));
});

test("a turn that had to make room does not come back from another tab", () => {
  const one = conversation("c1", 5);
  for (let number = 0; number < MOST_TURNS; number += 1) add_turn(one, ["x"], number);
  const other = read(write(one));
  add_turn(one, ["new"], MOST_TURNS);
  assert.ok(!merge(one, other));
  assert.equal(one.turns.length, MOST_TURNS);
  assert.equal(one.turns[0].at, 1);
});

test("under which key a turn was sent is kept, but not for lines that are not those", () => {
  const one = conversation("c1", 5);
  const turn = add_turn(one, ["a", "b"], 7);
  turn.sent = { once: "k", indexes: [0, 1] };
  assert.deepEqual(read(write(one)).turns[0].sent, turn.sent);
  turn.lines[0].text = 3;
  assert.equal(read(write(one)).turns[0].sent, null);
});

test("a conversation is called after its first line, cut where it is long", () => {
  const one = conversation("c1", 5);
  assert.equal(title(one), "New conversation");
  add_turn(one, ["y".repeat(200)], 7);
  assert.equal(title(one), `${"y".repeat(80)}…`);
  one.turns[0].lines[0].text = "😀".repeat(81);
  assert.equal(title(one), `${"😀".repeat(80)}…`);
});
