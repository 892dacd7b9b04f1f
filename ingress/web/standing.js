// What an operator has to know beside the figures: circuit breakers, shards, and models that nobody serves. Pure.

import { count, listed } from "./format.js";

/** How many breakers are named, and how many shards of a model. */
const MOST_NAMED = 12;
const MOST_SHARDS = 8;
const WORST = ["open", "half_open"];

/** The lines of `/v1/stats`, each with a `text` and a `tone`: what is wrong first, and then that the rest is well. */
export function standing({ breakers, routing, batchers }) {
  return [...unclosed(breakers), ...unowned(routing), ...well(breakers, routing, batchers)];
}

/** The same of `/stats`, which knows less, and answers whatever is away. */
export function overview({ circuit_breakers }) {
  const breakers = circuit_breakers.map(({ node, ...one }) => {
    const [of, name = "engine"] = node.split("/");
    return { ...one, node: of, name };
  });
  return [...unclosed(breakers), ...well(breakers)];
}

/** What is told of a batcher's shards, where routing is by hash, and of its cache. */
export function belongings({ shards, cache }, routing) {
  const owned = routing?.routing === "hash" ? [count(shards.length, "shard")] : [];
  const found = cache.hit_rate === null ? "nothing looked up" : `${(cache.hit_rate * 100).toFixed(1)} % found`;
  return [...owned, `cache ${cache.size.toLocaleString("en")} kept, ${found}`].join(" · ");
}

function unclosed(breakers) {
  const found = breakers
    .filter((one) => one.state !== "closed")
    .sort((a, b) => WORST.indexOf(a.state) - WORST.indexOf(b.state) || (a.node < b.node ? -1 : 1));
  const more = found.length - MOST_NAMED;
  return [...found.slice(0, MOST_NAMED).map(breaker), ...(more > 0 ? [{ tone: "bad", text: `And ${count(more, "more breaker")} not closed.` }] : [])];
}

function breaker({ name, node, state, failures, half_open_in_s }) {
  const so_far = `${count(failures, "failure")} so far`;
  if (state !== "open") return { tone: "warn", text: `${name} of ${node} is half-open, being tried: ${so_far}.` };
  // The short form does not say when.
  const when = half_open_in_s === undefined ? "" : `, tries again in ${Math.ceil(half_open_in_s)} s`;
  return { tone: "bad", text: `${name} of ${node} is open${when}: ${so_far}.` };
}

function unowned({ routing, shards, unowned: found }) {
  if (routing !== "hash") return [];
  return Object.entries(found).map(([model, missing]) => {
    const more = missing.length - MOST_SHARDS;
    const numbers = missing.length === shards ? "" : ` (${listed([...missing.slice(0, MOST_SHARDS).map(String), ...(more > 0 ? [`${more} more`] : [])])})`;
    return { tone: "bad", text: `${missing.length} of ${count(shards, "shard")} of ${model} have no batcher${numbers}: their jobs wait.` };
  });
}

function well(breakers, routing, batchers = []) {
  const closed = breakers.filter((one) => one.state === "closed").length;
  const all = closed === breakers.length;
  const circuits = breakers.length ? [{ tone: "", text: `Circuit breakers: ${all ? `all ${closed}` : `the other ${closed}`} closed.` }] : [];
  if (routing?.routing !== "hash" || Object.keys(routing.unowned).length || !batchers.length) return circuits;
  return [...circuits, { tone: "", text: `Routing by hash: ${count(routing.shards, "shard")} a model, each with a batcher.` }];
}
