import assert from "node:assert/strict";
import test from "node:test";

import { MOST, numeral, slim, told } from "../../../ingress/web/results.js";

test("one label has its score and nothing else", () => {
  assert.deepEqual(told({ label: "POSITIVE", score: 0.9, scores: {} }), { label: "POSITIVE", tone: "good", score: 0.9 });
});

test("of several labels those that hold come with their scores, and all scores in their order", () => {
  const scores = { fear: 0.62, anger: 0.02, joy: 0.931 };
  const two = told({ labels: ["joy", "fear"], scores, truncated: false });
  assert.deepEqual([two.label, two.score, two.brief], ["2 labels", undefined, "joy 93.1 %, fear 62.0 %"]);
  assert.deepEqual(two.rows, [["joy", "93.1 %"], ["fear", "62.0 %"], ["anger", "2.0 %, does not hold"]]);
  const one = told({ labels: ["joy"], scores, truncated: false });
  assert.deepEqual([one.label, one.score, one.brief], ["joy", 0.931, "joy 93.1 %"]);
  const none = told({ labels: [], scores: { joy: 0.1 }, truncated: false });
  assert.deepEqual([none.label, none.brief], ["no label", "The nearest: joy 10.0 %"]);
});

test("values are numbers and no shares", () => {
  const one = told({ values: { stars: 3.14159 }, truncated: false });
  assert.deepEqual([one.label, one.figure, one.brief], ["stars", "3.142", "stars 3.142"]);
  const two = told({ values: { a: -1, b: 12.5 }, truncated: false });
  assert.deepEqual([two.label, two.brief, two.rows], ["2 values", "a −1, b 12.5", [["a", "−1"], ["b", "12.5"]]]);
});

test("an embedding has its number of dimensions and its first numbers, also when no more of it was kept", () => {
  const kept = slim({ embedding: Array.from({ length: 384 }, (_, at) => at / 1000), truncated: false });
  assert.equal(kept.embedding.length, MOST);
  assert.deepEqual(slim(kept), kept);
  const found = told(kept);
  assert.deepEqual([found.label, found.figure, found.brief], ["embedding", "", "384 dimensions: 0, 0.001, 0.002, 0.003, 0.004, 0.005, …"]);
  assert.equal(found.rows[0][0], `first ${MOST}`);
  assert.ok(found.rows[0][1].endsWith("0.031, …"));
  assert.equal(told({ embedding: [1, 2], truncated: false }).brief, "2 dimensions: 1, 2");
});

test("tensors are told by name, type and shape, and their first numbers", () => {
  const outputs = [
    { name: "square", datatype: "FP32", shape: [1, 4], data: [1, 6.25, 9, 0] },
    { name: "large", datatype: "INT8", shape: [2, 50], data: Array(100).fill(7) },
    { name: "positive", datatype: "BOOL", shape: [1], data: [true] },
  ];
  const found = told(slim({ outputs }));
  assert.equal(found.label, "3 tensors");
  assert.equal(found.brief, "square FP32 [1, 4], large INT8 [2, 50], positive BOOL [1]");
  assert.deepEqual(found.rows[0], ["square FP32 [1, 4]", "1, 6.25, 9, 0"]);
  assert.deepEqual(found.rows[1][1], `${Array(MOST).fill(7).join(", ")}, …`);
  assert.deepEqual(found.rows[2], ["positive BOOL [1]", "true"]);
  assert.equal(slim({ outputs }).outputs[1].data.length, MOST);
});

test("of very many labels the best are kept, and how many there were", () => {
  const scores = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`label ${at}`, at / 1000]));
  const names = Object.keys(scores).reverse();
  const kept = slim({ labels: names, scores, truncated: false });
  assert.equal(Object.keys(kept.scores).length, MOST);
  assert.equal(told(kept).label, "1000 labels");
  assert.ok(told(kept).brief.endsWith(", …"));
  assert.deepEqual(told(kept).rows.at(-1), ["…", "and 968 more"]);
  assert.deepEqual(slim(kept), kept);
  assert.equal(slim({ label: "x", score: 1, scores }).of, 1000);
});

test("a kind that is not known is no cut JSON", () => {
  for (const found of [null, [1, 2], { what: 1 }]) assert.match(told(found).brief, /the API has it/);
});

test("numbers have four digits that count", () => {
  assert.deepEqual([0, 42, -0.012345, 1234.567, 1.5e-7, 2.5e9 + 0.5, true, "x"].map(numeral), ["0", "42", "−0.01235", "1235", "1.500e−7", "2.500e9", "true", "x"]);
});
