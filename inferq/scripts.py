"""The Lua scripts that create and move a job record, each one atomic step.

A step checks the state, writes, raises `seq`, sets the time to live and publishes the event; nothing can come
between. Which statuses a move may leave is handed in from the table in `inferq.jobs`, so the rule is written once.

A record is a hash whose fields are JSON fragments, so that a script can put the public record together by joining
strings: decoding and encoding JSON in Lua would cost more and would not keep numbers as they were. Fields that the
public record does not show: `charges`, `history`, `due_ms`, `created_ms`, `queue`, `message`, `entry`, `dead`, `owner`,
`quota` (the set that counts it towards its owner's quota), `submit` (who may still take the submit back), and those
that `inferq.webhooks.lua` names. `webhook` is public, but is there only where one was asked for.

`finished_at` and the timings `store` and `total` are stamped inside the step by the clock of Redis: that is when the
result is stored. The hosts' clocks are taken to be in step; what would come out negative is shown as 0.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

from inferq.names import HASHED_BYTES
from inferq.webhooks.lua import HOOK

# The order is the order of the public record.
PUBLIC_FIELDS = (
    "status", "seq", "model", "result", "error", "cached", "attempt", "deadline_at",
    "created_at", "started_at", "finished_at", "timings_ms", "batch",
)  # fmt: skip  # as the contract lists them

_PUBLIC = ", ".join(f"'{name}'" for name in PUBLIC_FIELDS)
_PLACES = ", ".join(f"{name} = {place}" for place, name in enumerate(PUBLIC_FIELDS, start=1))

_PRELUDE = """
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + t[2] / 1000
end

-- Days to a civil date: the sandbox has no os.date. Proleptic Gregorian, as in Hinnant's "chrono-compatible
-- low-level date algorithms".
local function iso(ms)
  local s = math.floor(ms / 1000)
  local milli = math.floor(ms) - s * 1000
  local days = math.floor(s / 86400)
  local rest = s - days * 86400
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * mp + 2) / 5) + 1
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ"', year, month, day,
    math.floor(rest / 3600), math.floor(rest / 60) % 60, rest % 60, milli)
end

-- Several channels are one name, `#` and their count: the id says which. `Names.event_shard` does the same.
local function channel_of(announced, id)
  if not string.find(announced, '#', 1, true) then return announced end
  local first, count = string.match(announced, '^(.*)#(%d+)$')
  local total = 0
  for i = math.max(1, #id - @HASHED@ + 1), #id do total = (total * 31 + string.byte(id, i)) % 4294967296 end
  local shard = total % tonumber(count)
  if shard == 0 then return first end
  return first .. '.' .. string.format('%d', shard)
end

-- The values of a record's public fields, in their order, as an event; `webhook` is the state of its webhook, if any.
local function publish(announced, id, v, webhook)
  local record = table.concat({'{"job_id":"', id, '","status":"', v[1], '","seq":', v[2], ',"model":', v[3],
    ',"result":', v[4] or 'null', ',"error":', v[5] or 'null', ',"cached":', v[6] or 'false',
    ',"attempt":', v[7], ',"deadline_at":', v[8] or 'null', ',"created_at":', v[9],
    ',"started_at":', v[10] or 'null', ',"finished_at":', v[11] or 'null',
    ',"timings_ms":', v[12] or 'null', ',"batch":', v[13] or 'null', webhook and ',"webhook":' .. webhook or '', '}'})
  redis.call('PUBLISH', channel_of(announced, id), '1 job.' .. v[1] .. ' ' .. id .. ' ' .. v[2] .. '\\n' .. record)
  return record
end

-- Returns the record where it has a webhook.
local function announce(key, channel, id)
  local v = redis.call('HMGET', key, @PUBLIC@, 'webhook')
  local record = publish(channel, id, v, v[14])
  return v[14] and record
end

-- Where a quota counts the job, its set is the last of the pairs.
local function create(key, open, channel, id, ttl, due, pairs)
  redis.call('HSET', key, 'status', 'queued', 'seq', 1, 'attempt', 0, 'charges', 0, unpack(pairs))
  redis.call('EXPIRE', key, ttl)
  redis.call('ZADD', open, due, id)
  if pairs[#pairs - 1] == 'quota' then
    redis.call('ZADD', pairs[#pairs], now_ms() + ttl * 1000, id)
    redis.call('EXPIRE', pairs[#pairs], ttl)
  end
  announce(key, channel, id)
end

local function slice(from, to)
  local out = {}
  for i = from, to do out[#out + 1] = ARGV[i] end
  return out
end
""".replace("@PUBLIC@", _PUBLIC).replace("@HASHED@", str(HASHED_BYTES))


@dataclass(frozen=True, kw_only=True)
class Script:
    """One Lua script and the digest that Redis knows it by."""

    text: str

    @cached_property
    def sha(self) -> str:
        """SHA-1 of the text, as EVALSHA takes it."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


def record_script(body: str) -> Script:
    """Make a script that may call the functions of the prelude."""
    return Script(text=_PRELUDE + body)


# New records. KEYS: open jobs, then records. ARGV: channel, length of what precedes the id in a record's key, ttl (s),
# then for each record its next look (ms), the count of its fields' names and values, and those.
# -> for each 1, or 0 when the id is taken.
CREATE = record_script(
    """
local before_id, at, out = tonumber(ARGV[2]), 4, {}
for i = 2, #KEYS do
  local last = at + 1 + tonumber(ARGV[at + 1])
  out[#out + 1] = 1 - redis.call('EXISTS', KEYS[i])
  if out[#out] == 1 then
    create(KEYS[i], KEYS[1], ARGV[1], string.sub(KEYS[i], before_id + 1), ARGV[3], ARGV[at], slice(at + 2, last))
  end
  at = last + 1
end
return out
""",
)

# A submit that did not come to its end may be made again by another process, and then is no longer its first maker's
# to take back. KEYS: record. ARGV: who takes it over. -> 1 when its message has to be published, 0 when its first
# maker has taken it back, 2 when it has been accepted: it was started, or has ended.
ADOPT = Script(
    text="""
local v = redis.call('HMGET', KEYS[1], 'status', 'submit')
if v[1] == 'queued' and v[2] then
  redis.call('HSET', KEYS[1], 'submit', ARGV[1])
  return 1
end
if not v[1] or ((v[1] == 'queued' or v[1] == 'failed') and not v[2]) then return 0 end
return 2
""",
)

# Says whether the submit is still this maker's to take back, and then nobody adopts it. KEYS: record. ARGV: maker.
DISOWN = Script(
    text="""
if redis.call('HGET', KEYS[1], 'submit') ~= ARGV[1] then return 0 end
return redis.call('HDEL', KEYS[1], 'submit')
""",
)

# A job that is answered before it was queued: it is born with its result, never open, and kept as a final record is.
# KEYS: record. ARGV: channel, id, ttl (s), status, when it was created (ms), timings without braces, then fields.
# -> 1, or 0 when the id is taken.
ANSWER = record_script(
    HOOK
    + """
local key = KEYS[1]
if redis.call('EXISTS', key) == 1 then return 0 end
local now = now_ms()
local timings = string.format('{%s,"store":%.3f,"total":%.3f}', ARGV[6], 0, math.max(0, now - tonumber(ARGV[5])))
redis.call('HSET', key, 'status', ARGV[4], 'seq', 1, 'attempt', 0, 'charges', 0, 'finished_at', iso(now),
  'timings_ms', timings, unpack(slice(7, #ARGV)))
redis.call('EXPIRE', key, ARGV[3])
local record = announce(key, ARGV[1], ARGV[2])
if record then hook(key, ARGV[2], ARGV[4], 1, record) end
return 1
""",
)

# A record that was lost is made anew, as what it must have been for its next move to make sense.
# KEYS: record, open jobs. ARGV: channel, id, ttl (s), next look (ms), status, then fields.
# -> 1, or 0 when there is a record.
REBUILD = record_script(
    """
if redis.call('HGET', KEYS[1], 'status') then return 0 end
create(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], slice(6, #ARGV))
if ARGV[5] == 'running' then redis.call('HSET', KEYS[1], 'status', ARGV[5], 'seq', 2, 'attempt', 1) end
return 1
""",
)

# One move of the lifecycle, made by many jobs: what they have in common is sent once, and a record is read and written
# once. KEYS: open jobs, then records.
# ARGV: 1 channel, 2 length of what precedes the id in a record's key, 3 statuses that the move may leave
# (",queued,running,"), 4 status it leads to, 5 ttl (s) or "", 6 flags: S started, F final, C charged; 7 one entry of
# history or "", 8 batch or "", 9 count of the fields that each job sets, their names, then their values, job by job.
# `ended_ms`, when the work ended, is not set but completes `timings_ms`, which comes after it.
# -> for each job {1 moved | 0 refused | -1 no such job | -2 no record of ours, status, seq, attempt, charges, dead,
# history}
MOVE = record_script(
    HOOK
    + """
local channel, leaves, target, ttl, entry, batch = ARGV[1], ARGV[3], ARGV[4], ARGV[5], ARGV[7], ARGV[8]
local before_id, count = tonumber(ARGV[2]), tonumber(ARGV[9])
local started, final, charged = string.find(ARGV[6], 'S'), string.find(ARGV[6], 'F'), string.find(ARGV[6], 'C')
local place = {@PLACES@, charges = 14, dead = 15, history = 16}
local now = now_ms()
local stamp = iso(now)
local closed = {}

local function move(key, id, values)
  local v = redis.pcall('HMGET', key, @PUBLIC@, 'charges', 'dead', 'history', 'created_ms', 'quota', 'webhook')
  if v.err then
    if string.find(v.err, 'WRONGTYPE', 1, true) then return {-2, '', 0, 0, 0, '', ''} end
    return v
  end
  local status = v[1]
  if not status then return {-1, '', 0, 0, 0, '', ''} end
  local seq, attempt, charges = tonumber(v[2]), tonumber(v[7]), tonumber(v[14])
  if not (seq and attempt and charges and v[3] and v[9]) then return {-2, '', 0, 0, 0, '', ''} end
  if not string.find(leaves, ',' .. status .. ',', 1, true) then
    return {0, status, seq, attempt, charges, v[15] or '', v[16] or ''}
  end
  local fields = {}
  local function set(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = value
    v[place[name]] = value
  end
  seq = seq + 1
  set('status', target)
  set('seq', seq)
  if started then
    attempt = attempt + 1
    set('attempt', attempt)
    set('started_at', stamp)
  end
  if charged then
    charges = charges + 1
    set('charges', charges)
  end
  if entry ~= '' then set('history', v[16] and v[16] .. ',' .. entry or entry) end
  if batch ~= '' then set('batch', batch) end
  if final then set('finished_at', stamp) end
  local ended = now
  for i = 1, count do
    local name, value = ARGV[9 + i], ARGV[values + i]
    if name == 'ended_ms' then
      ended = tonumber(value)
    elseif name == 'timings_ms' then
      set(name, string.format('{%s,"store":%.3f,"total":%.3f}', value, math.max(0, now - ended),
        math.max(0, now - (tonumber(v[17]) or now))))
    else
      set(name, value)
    end
  end
  redis.call('HSET', key, unpack(fields))
  if final then
    redis.call('HDEL', key, 'message', 'entry')
    if v[18] then redis.call('ZREM', v[18], id) end
    closed[#closed + 1] = id
  end
  if ttl ~= '' then redis.call('EXPIRE', key, ttl) end
  local record = publish(channel, id, v, v[19])
  if final and v[19] then hook(key, id, target, seq, record) end
  return {1, target, seq, attempt, charges, v[15] or '', v[16] or ''}
end

local answers = {}
for i = 2, #KEYS do
  local answer = move(KEYS[i], string.sub(KEYS[i], before_id + 1), 9 + count * (i - 1))
  if answer.err then return answer end
  answers[#answers + 1] = answer
end
if #closed > 0 then redis.call('ZREM', KEYS[1], unpack(closed)) end
return answers
""".replace("@PUBLIC@", _PUBLIC).replace("@PLACES@", _PLACES),
)

# KEYS: record. Notes that the dead letter is kept, unless the record is gone: a bare field would never go.
BURIED = Script(
    text="""
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'dead', 'kept') end
return 1
""",
)

# KEYS: lock. ARGV: holder, time to live (ms). -> 1 when the holder has it now.
LOCK = Script(
    text="""
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
""",
)
