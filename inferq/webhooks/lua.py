"""The part of the scripts that move records which is about webhooks: what becomes final is due at once. Pure.

For a job with a webhook, the step that ends it also writes

- `webhook:{id}`, a hash: `url`, `host`, `owner`, `body` (the event's frame), `id` (`webhook-id`), `since` (when its day
  of tries began, in ms by the clock of Redis), `attempts`, of which `before` were made in earlier days, and after a
  failed try `status` and `error`, which are JSON; while a try is under way `claim`, whose it is;
- its job id into `webhooks-due`, which holds all that are not delivered, by when they are due;
- the same into `webhooks-host:{host}`, those of one host, and the host into `webhooks-hosts`, by its first. So a host
  that takes nothing is passed over as a whole, however much waits for it;
- a word on the channel `webhooks`, for a sender that sleeps.

The record names `webhook_url` and `webhook_host` until then, and `webhook`, its state as everybody sees it.
"""

from typing import Final

# A day of tries, and two in which there was perhaps no sender.
KEPT_S: Final = 3 * 86_400

HOOK: Final = """
local function space_of(key, id) return string.sub(key, 1, #key - #id - 4) end

-- A host stands in the list by what is due first of all that waits for it.
local function refresh(space, host)
  local first = redis.call('ZRANGE', space .. 'webhooks-host:' .. host, 0, 0, 'WITHSCORES')
  if first[2] then redis.call('ZADD', space .. 'webhooks-hosts', first[2], host)
  else redis.call('ZREM', space .. 'webhooks-hosts', host) end
end

local function put(space, host, id, due)
  redis.call('ZADD', space .. 'webhooks-due', due, id)
  redis.call('ZADD', space .. 'webhooks-host:' .. host, due, id)
  refresh(space, host)
end

local function take_out(space, host, id)
  redis.call('ZREM', space .. 'webhooks-due', id)
  redis.call('ZREM', space .. 'webhooks-host:' .. host, id)
  refresh(space, host)
end

local function hook(key, id, status, seq, record)
  local v = redis.call('HMGET', key, 'webhook_url', 'webhook_host', 'owner')
  if not (v[1] and v[2]) then return end
  local space, now = space_of(key, id), math.floor(now_ms())
  local it = space .. 'webhook:' .. id
  local body = '{"type":"job.' .. status .. '","job_id":"' .. id .. '","seq":' .. seq .. ',"job":' .. record .. '}'
  redis.call('DEL', it)
  redis.call('HSET', it, 'url', v[1], 'host', v[2], 'owner', v[3] or '', 'body', body, 'id', 'msg_' .. id .. '_' .. seq,
    'since', string.format('%.0f', now), 'attempts', 0)
  redis.call('EXPIRE', it, @KEPT@)
  redis.call('HDEL', key, 'webhook_url', 'webhook_host')
  redis.call('ZREM', space .. 'webhooks-failed', id)
  put(space, v[2], id, now)
  redis.call('PUBLISH', space .. 'webhooks', '1')
end
""".replace("@KEPT@", str(KEPT_S))
