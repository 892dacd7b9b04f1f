// What an operator has to know beside the figures: circuit breakers, shards, and models that nobody serves. Pure.

import { count, listed } from "./format.js";

/** What a breaker leads to, where its own name would not say it. */
const LEADS_TO = { engine: "its engine", redis: "Redis", broker: "RabbitMQ" };
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

/** What is told of a batcher's progress, where routing is by hash of its shards, and in a second line of its cache. */
export function belongings({ last_progress_s, shards, cache }, routing) {
  const owned = routing?.routing === "hash" ? [count(shards.length, "shard")] : [];
  const found = cache.hit_rate === null ? "nothing looked up" : `${(cache.hit_rate * 100).toFixed(1)} % found`;
  return [[`last progress ${last_progress_s.toFixed(1)} s ago`, ...owned].join(" · "), `cache ${cache.size.toLocaleString("en")} kept, ${found}`];
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
  const which = `The breaker of ${node} to ${LEADS_TO[name] ?? name}`;
  if (state !== "open") return { tone: "warn", text: `${which} is half-open, being tried: ${so_far}.` };
  // The short form does not say when.
  const when = half_open_in_s === undefined ? "" : `, tries again in ${Math.ceil(half_open_in_s)} s`;
  return { tone: "bad", text: `${which} is open${when}: ${so_far}.` };
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
  const circuits = closed ? [{ tone: "", text: `${those(closed, breakers.length)} closed.` }] : [];
  if (routing?.routing !== "hash" || Object.keys(routing.unowned).length || !batchers.length) return circuits;
  return [...circuits, { tone: "", text: `Routing by hash: ${count(routing.shards, "shard")} a model, each with a batcher.` }];
}

/** The breakers that are closed, before the word for that. */
function those(closed, all) {
  if (closed < all) return closed === 1 ? "The other circuit breaker is" : `The other ${closed} circuit breakers are`;
  if (all === 1) return "The circuit breaker is";
  return all === 2 ? "Both circuit breakers are" : `All ${all} circuit breakers are`;
}
