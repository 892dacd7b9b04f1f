"""The part of the scripts that move records which is about webhooks: what becomes final is due at once. Pure.

For a job with a webhook, the step that ends it also writes

- `webhook:{id}`, a hash: `url`, `host`, `owner`, `body` (the event's frame), `id` (`webhook-id`), `since` (when its day
  of tries began, in ms by the clock of Redis), `attempts`, of which `before` were made in earlier days, and after a
  failed try `status` and `error`, which are JSON; while a try is under way `claim`, whose it is;
- its job id into `webhooks-due`, which holds all that are not delivered, by when they are due, and one more into the
  count of its owner in the hash `webhooks-owned`;
- the job id into `webhooks-host:{owner}:{host}` as well, the line of one owner at one host; the host into
  `webhooks-hosts:{owner}`, by the first of its line; and the owner into `webhooks-owners`, by the first of his hosts.
  So a host that takes nothing, or an owner who has his share, is passed over as a whole, however much waits;
- a word on the channel `webhooks`, for a sender that sleeps.

The record names `webhook_url` and `webhook_host` until then, and `webhook`, its state as everybody sees it.
"""

from typing import Final

# A day of tries, and two in which there was perhaps no sender.
KEPT_S: Final = 3 * 86_400

HOOK: Final = """
local function space_of(key, id) return string.sub(key, 1, #key - #id - 4) end

local function line_of(space, owner, host) return space .. 'webhooks-host:' .. owner .. ':' .. host end

-- Where a list is part of another one, it stands there by what is due first of all that is in it.
local function stand(list, whole, name)
  local first = redis.call('ZRANGE', list, 0, 0, 'WITHSCORES')
  if first[2] then redis.call('ZADD', whole, first[2], name) else redis.call('ZREM', whole, name) end
end

local function refresh(space, owner, host)
  local hosts = space .. 'webhooks-hosts:' .. owner
  stand(line_of(space, owner, host), hosts, host)
  stand(hosts, space .. 'webhooks-owners', owner)
end

local function put(space, owner, host, id, due)
  if redis.call('ZADD', space .. 'webhooks-due', due, id) == 1 then
    redis.call('HINCRBY', space .. 'webhooks-owned', owner, 1)
  end
  redis.call('ZADD', line_of(space, owner, host), due, id)
  refresh(space, owner, host)
end

local function take_out(space, owner, host, id)
  if redis.call('ZREM', space .. 'webhooks-due', id) == 1 and
    redis.call('HINCRBY', space .. 'webhooks-owned', owner, -1) <= 0 then
    redis.call('HDEL', space .. 'webhooks-owned', owner)
  end
  redis.call('ZREM', line_of(space, owner, host), id)
  refresh(space, owner, host)
end

local function hook(key, id, status, seq, record)
  local v = redis.call('HMGET', key, 'webhook_url', 'webhook_host', 'owner')
  if not (v[1] and v[2]) then return end
  local space, now, owner = space_of(key, id), math.floor(now_ms()), v[3] or ''
  local it = space .. 'webhook:' .. id
  local old = redis.call('HMGET', it, 'owner', 'host')
  if old[1] and old[2] then take_out(space, old[1], old[2], id) end
  local body = '{"type":"job.' .. status .. '","job_id":"' .. id .. '","seq":' .. seq .. ',"job":' .. record .. '}'
  redis.call('DEL', it)
  redis.call('HSET', it, 'url', v[1], 'host', v[2], 'owner', owner, 'body', body, 'id', 'msg_' .. id .. '_' .. seq,
    'since', string.format('%.0f', now), 'attempts', 0)
  redis.call('EXPIRE', it, @KEPT@)
  redis.call('HDEL', key, 'webhook_url', 'webhook_host')
  redis.call('ZREM', space .. 'webhooks-failed', id)
  put(space, owner, v[2], id, now)
  redis.call('PUBLISH', space .. 'webhooks', '1')
end
""".replace("@KEPT@", str(KEPT_S))
