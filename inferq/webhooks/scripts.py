"""The Lua scripts of webhooks that wait, each one atomic step; how they come about is in `inferq.webhooks.lua`. Pure.

All times are by the clock of Redis. Whoever claims a webhook has it until its lease ends; it is settled by the one that
has the claim, so a sender that was frozen cannot overwrite what another has found out since.
"""

from typing import Final

from inferq.scripts import Script, record_script
from inferq.webhooks.lua import HOOK, KEPT_S

# How many that failed are kept, and for how long.
MOST_FAILED: Final = 100_000
FAILED_S: Final = 7 * 86_400

# Called once the hash says what is so: writes the state into the record, where there still is one.
_SHOW = """
local function show(space, id, state, next_at)
  local key = space .. 'job:' .. id
  if redis.call('HEXISTS', key, 'webhook') == 0 then return end
  local v = redis.call('HMGET', space .. 'webhook:' .. id, 'attempts', 'status', 'error')
  redis.call('HSET', key, 'webhook', '{"state":"' .. state .. '","attempts":' .. (v[1] or 0) .. ',"last_status":' ..
    (v[2] or 'null') .. ',"last_error":' .. (v[3] or 'null') .. ',"next_at":' .. (next_at and iso(next_at) or 'null')
    .. '}')
end
"""


def _script(body: str) -> Script:
    return record_script(HOOK + _SHOW + body)


# Claims what is due, of each host and of each owner no more than may be under way at a time. Who has as much already is
# passed over; there are few of those. An owner may have an equal part of all places, and as many parts are there as
# owners with something due or under way, and one: whoever comes next finds a place.
# KEYS: owners. ARGV: what names begin with, claim, lease (ms), how many at most, how many of a host, JSON of what is
# known: `hosts`, how many more of each, and `owners`, how many of each are under way.
# -> now (ms), when there is something to do again (0 when something due was left, -1 never, or in how many ms), how
# many are not delivered, how many have failed, then for each its job id, host, url, body, webhook-id, tries of its day,
# when that began, owner
CLAIM = _script(
    """
local space, claim, lease, room, share = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local known, now, out = cjson.decode(ARGV[6]), math.floor(now_ms()), {}
local free, under_way, full, parts, places = known.hosts, known.owners, 0, 1, room
for _, more in pairs(free) do if more <= 0 then full = full + 1 end end
for _, tries in pairs(under_way) do parts, places = parts + 1, places + tries end
local owners = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, room + parts)
for _, owner in ipairs(owners) do if not under_way[owner] then parts = parts + 1 end end
local part = math.max(1, math.floor(places / parts))

-- Claims of one line, and says how many.
local function claim_of(owner, host, most)
  local line, count = line_of(space, owner, host), 0
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', line, '-inf', now, 'LIMIT', 0, most)) do
    local key = space .. 'webhook:' .. id
    local v = redis.call('HMGET', key, 'url', 'body', 'id', 'attempts', 'since', 'before')
    if v[1] and v[2] and v[3] and v[4] and v[5] then
      redis.call('HSET', key, 'claim', claim)
      redis.call('ZADD', line, now + lease, id)
      redis.call('ZADD', space .. 'webhooks-due', now + lease, id)
      count = count + 1
      out[#out + 1] = {id, host, v[1], v[2], v[3], v[4] - (v[6] or 0), v[5], owner}
    else
      take_out(space, owner, host, id)
    end
  end
  refresh(space, owner, host)
  return count
end

for _, owner in ipairs(owners) do
  local most = math.min(part - (under_way[owner] or 0), room)
  local hosts = most > 0 and redis.call('ZRANGEBYSCORE', space .. 'webhooks-hosts:' .. owner, '-inf', now, 'LIMIT', 0,
    most + full) or {}
  for _, host in ipairs(hosts) do
    local more = math.min(free[host] or share, most)
    if more > 0 then
      local count = claim_of(owner, host, more)
      free[host] = (free[host] or share) - count
      most, room = most - count, room - count
    end
  end
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return {now, first[2] and math.max(0, math.ceil(first[2] - now)) or -1, redis.call('ZCARD', space .. 'webhooks-due'),
  redis.call('ZCARD', space .. 'webhooks-failed'), unpack(out)}
""",
)

# Settles a claim. KEYS: the webhook. ARGV: what names begin with, job id, claim, state it comes to, when it is due
# again (ms; pending alone), last status and last error as JSON, when the day began by which this was decided: where it
# has another one by now, somebody wants it tried again. -> 1, or 0 when the claim is another's now.
SETTLE = _script(
    """
local key, space, id, state, due = KEYS[1], ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
if redis.call('HGET', key, 'claim') ~= ARGV[3] then return 0 end
local v = redis.call('HMGET', key, 'owner', 'host', 'since')
local now = math.floor(now_ms())
if state ~= 'delivered' and v[3] ~= ARGV[8] then state, due = 'pending', now end
redis.call('HINCRBY', key, 'attempts', 1)
redis.call('HSET', key, 'status', ARGV[6], 'error', ARGV[7])
redis.call('HDEL', key, 'claim')
show(space, id, state, state == 'pending' and due)
if state == 'pending' then
  put(space, v[1], v[2], id, due)
  return 1
end
take_out(space, v[1], v[2], id)
if state == 'delivered' then
  redis.call('DEL', key)
  return 1
end
local failed = space .. 'webhooks-failed'
redis.call('ZADD', failed, now, id)
redis.call('EXPIRE', key, @FAILED@)
redis.call('ZREMRANGEBYSCORE', failed, '-inf', now - @FAILED@ * 1000)
local over = redis.call('ZCARD', failed) - @MOST@
if over > 0 then
  local gone = redis.call('ZPOPMIN', failed, over)
  for i = 1, #gone, 2 do redis.call('DEL', space .. 'webhook:' .. gone[i]) end
end
return 1
""".replace("@FAILED@", str(FAILED_S)).replace("@MOST@", str(MOST_FAILED)),
)

# Makes a webhook due now, with a day of its own. One that is under way is left to come to its end.
# KEYS: the webhook. ARGV: what names begin with, job id. -> 1, or 0 when there is none.
RETRY = _script(
    """
local key, space, id = KEYS[1], ARGV[1], ARGV[2]
local v = redis.call('HMGET', key, 'owner', 'host', 'claim', 'attempts')
if not (v[1] and v[2]) then return 0 end
local now = math.floor(now_ms())
redis.call('HSET', key, 'since', string.format('%.0f', now), 'before', v[4] or 0)
redis.call('EXPIRE', key, @KEPT@)
if v[3] and tonumber(redis.call('ZSCORE', space .. 'webhooks-due', id) or 0) > now then return 1 end
redis.call('HDEL', key, 'claim')
redis.call('ZREM', space .. 'webhooks-failed', id)
put(space, v[1], v[2], id, now)
show(space, id, 'pending', now)
redis.call('PUBLISH', space .. 'webhooks', '1')
return 1
""".replace("@KEPT@", str(KEPT_S)),
)
